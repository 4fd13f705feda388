"""Distributed training over several workers and devices: discovery and agreement."""
