"""Performance-critical operations: a reference and a faster version of each."""
