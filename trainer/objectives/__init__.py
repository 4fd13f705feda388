"""Targets, losses, metrics and baselines of each kind of objective."""
