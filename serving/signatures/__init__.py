"""Signatures of exported models, one module per kind of objective."""
