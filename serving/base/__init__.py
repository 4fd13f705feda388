"""The trained run, its records, credentials and formats that all floors share."""
