"""From records and a configuration to a trained model and its evaluation."""
