"""A server under attack, beside those whom it is for."""
