"""The interface, special tokens and offsets of all kinds of tokenizers."""
