"""Training of vocabularies, and trimming of trained ones."""
