"""Compares the predictions and heads of two models on one text."""
