"""One module for each sort of file a corpus may be made of."""
