"""A stack of Transformer blocks, built from its config."""
