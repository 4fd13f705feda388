"""`transbeam predict`: formatted predictions for texts and images."""
