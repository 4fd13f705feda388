"""Predict, Classify, Regress, streaming and metadata, for the REST and gRPC APIs."""
