"""TF Serving's requests and responses: JSON, protocol buffers, REST paths."""
