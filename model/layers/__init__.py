"""The layers of a Transformer."""
