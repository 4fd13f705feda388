"""Documents packed or bucketed into records."""
