"""Trains and evaluates models, from records and a configuration."""
