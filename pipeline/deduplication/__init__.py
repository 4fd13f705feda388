"""Documents that say the same as another: found, and dropped."""
