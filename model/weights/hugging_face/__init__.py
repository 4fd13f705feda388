"""Model families in Hugging Face's format, a module each."""
