"""Task-metric loss per TFLite variant, on validation records."""
