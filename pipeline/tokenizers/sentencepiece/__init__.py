"""SentencePiece models, in TensorFlow."""
