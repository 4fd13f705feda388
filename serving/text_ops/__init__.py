"""Text and token operations inside the exported graph."""
