"""Decodes source bytes to text, lines and pixels."""
