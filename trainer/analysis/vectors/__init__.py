"""Vectors of pieces and words in every layer."""
