"""`transbeam score`: batch inference over a corpus with an exported model."""
