"""Checks with limits, the checker interface and the texts that are compared."""
