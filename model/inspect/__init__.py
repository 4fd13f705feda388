"""Inspection of a model: attention maps and hidden states."""
