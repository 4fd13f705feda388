"""Models and tokenizers for phones."""
