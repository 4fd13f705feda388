"""Streaming text generation with continuous batching."""
