"""HTML pages and their charts, without scripts, network access or other files."""
