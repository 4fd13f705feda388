"""Errors, deadlines, batched arrays and threads, shared by the whole server."""
