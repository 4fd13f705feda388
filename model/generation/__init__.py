"""Writing on from a prompt: which token comes next, with a cache, until it stops."""
