"""Code shared by schema, loader and commands: errors, key declarations, files."""
