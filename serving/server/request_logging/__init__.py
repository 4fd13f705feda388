"""Sampled requests and responses, as PredictionLogs in TFRecord files."""
