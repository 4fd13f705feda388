"""A checkpoint of any program: its config, tensors and the mapping of their names."""
