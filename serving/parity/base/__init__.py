"""Checks with tolerances, the checker interface and the texts that are compared."""
