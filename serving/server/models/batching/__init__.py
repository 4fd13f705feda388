"""Requests that wait are run together."""
