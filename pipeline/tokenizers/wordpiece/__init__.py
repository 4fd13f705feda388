"""WordPiece as in BERT, in TensorFlow."""
