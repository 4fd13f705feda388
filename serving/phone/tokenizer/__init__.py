"""The tokenizer on phones: a file of data, and who reads it in three languages."""
