"""Training records: contract, arrays, TFRecord files, manifest."""
