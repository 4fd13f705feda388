"""`transbeam predict`: texts and images to formatted predictions."""
