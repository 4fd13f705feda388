"""Training records of each kind of objective."""
