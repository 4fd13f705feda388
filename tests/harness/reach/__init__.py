"""Chooses the tests that a change can reach: by what each executed, and by imports."""
