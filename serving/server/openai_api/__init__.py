"""OpenAI's API: completions, chat completions, embeddings and models."""
