"""The kinds of `objective`: self-supervised and supervised ones."""
