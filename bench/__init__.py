"""Side-by-side measurements: ours and a peer alternate in one process."""
