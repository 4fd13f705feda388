"""Files for MediaPipe Tasks, and what its tokenizers read differently."""
