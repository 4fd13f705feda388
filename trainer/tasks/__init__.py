"""Tasks that a language model does without training, with solved examples before."""
