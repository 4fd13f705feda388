"""The README of a phone export, with code samples in three languages."""
