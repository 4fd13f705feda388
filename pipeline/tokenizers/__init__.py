"""Tokenizers: one implementation for the data job, the trainer and serving."""
