"""Seeds, initializers, paths of weights and checks of tensors."""
