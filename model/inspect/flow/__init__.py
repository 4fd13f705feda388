"""Flow of attention from input tokens through all layers."""
