"""Model, texts and files, which all parts of an analysis share."""
