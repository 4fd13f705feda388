"""Models and their versions: loading, batching, warm-up and request logging."""
