"""TF Serving's request and response formats: JSON, protocol buffers, REST paths."""
