"""Changing a trained model: fewer weights to train, fewer or smaller weights."""
