"""The schema of a run's YAML file, one module per section."""
