"""The version of Transbeam."""

VERSION = "0.1.0"
