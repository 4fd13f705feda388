"""A training by several workers and devices: who they are and what they agree on."""
