"""Attention layers: a module per kind, with a common base class."""
