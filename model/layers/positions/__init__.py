"""Position encodings, a module per kind."""
