"""From a corpus to TFRecords and their manifest, as an Apache Beam job."""
