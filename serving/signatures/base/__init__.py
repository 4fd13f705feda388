"""Endpoints, checks of ids and attention maps, for all kinds of signatures."""
