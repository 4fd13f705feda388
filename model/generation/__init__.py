"""Autoregressive text generation with a KV cache: decoding methods and stopping."""
