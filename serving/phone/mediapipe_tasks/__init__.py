"""Files for MediaPipe Tasks, and the differences of its tokenizers."""
