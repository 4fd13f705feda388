"""How tokens look at each other: one file a kind, over one base."""
