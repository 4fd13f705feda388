"""Files for MediaPipe Tasks, and checks for differences of MediaPipe's tokenizers."""
