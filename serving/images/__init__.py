"""Decodes images in the TensorFlow graph, bit for bit as in the training data."""
