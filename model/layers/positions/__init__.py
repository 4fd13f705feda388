"""How a token is told where it stands, one way per file."""
