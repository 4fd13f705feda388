"""Parity of exported models with Keras, one module a kind of output."""
