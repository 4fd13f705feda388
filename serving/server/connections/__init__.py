"""Addresses, Unix sockets and connection limits."""
