"""Parity checks of exported models against Keras, one module per kind of output."""
