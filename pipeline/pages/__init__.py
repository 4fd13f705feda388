"""Pages of HTML and their pictures, which need no script, network or other file."""
