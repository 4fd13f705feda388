"""Modules that all folders of the trainer share: stage, weights, warm start."""
