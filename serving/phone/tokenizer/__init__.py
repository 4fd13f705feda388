"""The tokenizer for phones: data file, golden ids and sources in three languages."""
