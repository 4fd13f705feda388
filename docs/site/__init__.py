"""Pages that are made of the code, and the links between all pages."""
