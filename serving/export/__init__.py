"""The SavedModel with its warm-up and golden requests, published atomically."""
