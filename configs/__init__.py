"""A run's configuration: the schema of its YAML file, its folder, its command line."""
