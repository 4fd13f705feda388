"""What moves weights, how far, and which weights may shrink."""
