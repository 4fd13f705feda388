"""A file for each model family in Hugging Face's format."""
