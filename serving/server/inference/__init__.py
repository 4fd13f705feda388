"""Signatures of a SavedModel and the session that runs them."""
