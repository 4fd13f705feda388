"""The trained model, out of the house: SavedModel, TFLite, and proof that they agree.

Read `export.py` first, then `signatures.py` and `parity.py`.
"""
