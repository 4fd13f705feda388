"""The version of Transbeam."""

VERSION = "0.2.0"
# Versions whose unfinished stages this one resumes: its code gives the same results.
RESUMABLE_VERSIONS = frozenset({"0.1.0", VERSION})
