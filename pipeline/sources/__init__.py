"""Splits the files of a corpus into work units and reads the work units."""
