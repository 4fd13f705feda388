"""`transbeam evaluate`: scores of a trained model, and its worst errors."""
