"""What the backend computes on."""

import keras


def has_gpu() -> bool:
    """Whether the backend sees a GPU."""
    # Not `list_devices("gpu")`, which JAX takes for an order where there is none.
    return any(name.startswith("gpu") for name in keras.distribution.list_devices())
