"""Tokenizer folders, ours and those of others."""
