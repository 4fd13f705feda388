"""Size, latency and metric loss of each variant."""
