"""Seeds, initializers, weight paths and tensor checks."""
