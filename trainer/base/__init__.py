"""Parts that all floors of the trainer share: stage, weights, warm start."""
