"""Devices of the Keras backend."""

import keras


def has_gpu() -> bool:
    """Returns whether the backend has a GPU."""
    # Not `list_devices("gpu")`: JAX raises an error for it where there is no GPU.
    return any(name.startswith("gpu") for name in keras.distribution.list_devices())


def device_kind() -> str:
    """The first device's kind: `cpu`, or the accelerator's name."""
    if not has_gpu():
        return "cpu"
    if keras.backend.backend() == "jax":
        import jax

        return jax.devices()[0].device_kind
    import tensorflow as tf

    (gpu, *_) = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpu).get("device_name", "gpu")


def peak_device_bytes() -> int | None:
    """Peak bytes of the first accelerator's memory that were in use; None on a CPU."""
    if not has_gpu():
        return None
    if keras.backend.backend() == "jax":
        import jax

        stats = jax.devices()[0].memory_stats() or {}
        return stats.get("peak_bytes_in_use")
    import tensorflow as tf

    return tf.config.experimental.get_memory_info("GPU:0")["peak"]
