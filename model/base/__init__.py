"""Seeds, initializers, weight paths, tensor checks and answer spans."""
