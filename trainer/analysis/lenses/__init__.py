"""Predictions read from hidden states: logit lens and tuned lens."""
