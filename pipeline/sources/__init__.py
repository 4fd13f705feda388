"""Splits the files of a corpus into work units and reads them."""
