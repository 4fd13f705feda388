"""The tokenizer interface, special tokens and offsets, for every kind."""
