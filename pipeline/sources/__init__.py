"""The files of a corpus, cut into units of work and read."""
