"""What a training looks like: pages that need no script and no network."""
