"""The parts of a Transformer, one idea per file."""
