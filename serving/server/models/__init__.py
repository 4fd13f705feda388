"""Which models and versions there are, and how they are run."""
