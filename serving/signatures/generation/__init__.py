"""Signatures of models that generate text, and their request parameters."""
