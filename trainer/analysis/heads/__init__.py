"""Metrics of attention heads."""
