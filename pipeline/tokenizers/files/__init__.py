"""Reads and writes tokenizer folders, ours and those of other libraries."""
