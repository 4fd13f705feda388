"""Text to ids and back: one engine for the data job, the trainer and serving."""
