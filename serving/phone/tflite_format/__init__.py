"""TFLite files as data: flatbuffers, metadata, signatures."""
