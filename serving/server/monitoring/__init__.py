"""Prometheus metrics, the access log and request ids."""
