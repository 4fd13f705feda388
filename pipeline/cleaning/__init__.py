"""Filters and rewriting of the texts of documents. Pure functions."""
