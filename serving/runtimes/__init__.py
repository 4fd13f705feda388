"""Exported files, loaded and called: SavedModel and LiteRT."""
