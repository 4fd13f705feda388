"""Attention layers: one file a kind, over one base class."""
