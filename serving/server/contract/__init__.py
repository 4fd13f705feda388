"""What requests and answers look like: JSON, protocol buffers, paths."""
