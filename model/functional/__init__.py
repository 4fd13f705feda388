"""Keras functional models with checked inputs, or with deferred logits."""
