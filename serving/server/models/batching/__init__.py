"""Batches concurrent requests."""
