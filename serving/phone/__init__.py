"""TFLite files, tokenizer and README for phones: `transbeam export --target phone`."""
