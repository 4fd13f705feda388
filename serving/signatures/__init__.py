"""Signatures of exported models, one module a kind of objective."""
