"""Looking into a model without changing it."""
