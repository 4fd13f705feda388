"""Position encodings, one kind a file."""
