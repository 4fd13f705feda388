"""The one place that says which Transbeam this is."""

VERSION = "0.1.0"
