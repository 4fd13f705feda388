"""Documents: the unit that is cleaned, split and packed."""
