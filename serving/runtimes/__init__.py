"""Loads and runs exported models: SavedModel and LiteRT."""
