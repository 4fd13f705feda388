"""Analysis of a trained model: `transbeam analyze`."""
