"""Predict, Classify, Regress, streaming and metadata, for both APIs."""
