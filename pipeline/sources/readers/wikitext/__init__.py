"""Wikitext to plain text."""
