"""Training records: features, arrays, TFRecord files, manifest."""
