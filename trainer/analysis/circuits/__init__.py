"""Circuits of heads, and what a prediction is made of."""
