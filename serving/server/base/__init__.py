"""Errors, deadlines, batched arrays and threads, for all parts of the server."""
