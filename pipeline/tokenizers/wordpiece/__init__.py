"""WordPiece as BERT has it, in TensorFlow."""
