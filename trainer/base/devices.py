"""Devices of the Keras backend."""

import keras


def has_gpu() -> bool:
    """Returns whether the backend has a GPU."""
    # Not `list_devices("gpu")`: JAX raises an error for it where there is no GPU.
    return any(name.startswith("gpu") for name in keras.distribution.list_devices())
