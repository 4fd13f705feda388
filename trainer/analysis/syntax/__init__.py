"""Syntax and roles of attention heads."""
