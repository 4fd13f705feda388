"""Attention from layer to layer, and from text to text."""
