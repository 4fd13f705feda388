"""Batch inference over a corpus with an exported model (`transbeam score`)."""
