"""Writes SavedModels with warm-up and golden requests and publishes them atomically."""
