"""Decoding of source bytes to text, lines and pixels."""
