"""Checkpoints of other libraries: config, tensors and the mapping of weight names."""
