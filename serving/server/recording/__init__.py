"""Requests and their answers, written down for those who ask for it: TFRecord files."""
