"""Converts a corpus to TFRecords and a manifest, as an Apache Beam job."""
