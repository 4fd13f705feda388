"""Trained runs, records, credentials and formats shared by the serving packages."""
