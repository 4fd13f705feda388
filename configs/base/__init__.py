"""Code that schema, loader and commands share: errors, fields, files."""
