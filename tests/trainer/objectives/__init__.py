"""Targets and their costs."""
