"""Runs that are made of other runs: `transbeam trim` and `prune`."""
