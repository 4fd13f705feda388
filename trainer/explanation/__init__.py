"""Pictures of a configuration and of the kinds of its keys: `transbeam explain`."""
