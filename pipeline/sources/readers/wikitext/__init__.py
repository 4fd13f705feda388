"""Converts wikitext to plain text."""
