"""Loads and calls exported models: SavedModel and LiteRT."""
