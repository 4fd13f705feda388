"""Loads YAML files as checked `RunConfig`s, and manages the folders of runs."""
