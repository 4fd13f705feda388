"""Performance-critical operations: a reference and a faster form of each."""
