"""The kinds of `objective`, without labels and with."""
