"""SavedModel signatures and the TensorFlow session that runs them."""
