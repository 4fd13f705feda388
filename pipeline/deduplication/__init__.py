"""Finds and drops exact and near-duplicate documents."""
