"""Endpoints, id checks and attention maps, common to all kinds of signatures."""
