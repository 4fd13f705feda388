"""Parts that the schema, the loader and the commands share: errors, fields, files."""
