"""The Transformer: builds a functional `keras.Model` from a config.

Read `build.py` first, then `encoder.py`, `stack/layer_factory.py` and
`layers/block.py`. The model is written in `keras.ops`, so it runs on any Keras backend.
"""
