"""The steps of a training, its checkpoints and its log."""
