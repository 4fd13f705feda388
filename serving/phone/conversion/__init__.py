"""Conversion of signatures to TFLite and LiteRT-LM files."""
