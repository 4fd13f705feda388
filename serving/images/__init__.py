"""Decodes images in the graph, bit for bit as in the training data."""
