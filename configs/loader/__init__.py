"""From a YAML file to a checked `RunConfig`, and the folder of its run."""
