"""Parity checks with tolerances, the checker interface, and the compared texts."""
