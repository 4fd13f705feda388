"""Probes of what each layer encodes."""
