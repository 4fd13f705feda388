"""What a run is: the schema of its YAML file, its folder, its command line."""
