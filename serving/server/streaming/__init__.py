"""Texts that are sent while they are written, many of them side by side."""
