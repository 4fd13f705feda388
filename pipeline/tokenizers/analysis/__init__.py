"""Reports on a vocabulary and a corpus."""
