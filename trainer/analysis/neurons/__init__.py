"""Units of feed-forward layers."""
