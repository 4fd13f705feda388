"""The schema of a run's YAML file: a file for each section."""
