"""Bitwise deterministic operations, for `training.deterministic`."""

import os

import keras
import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.base.devices import has_gpu

_FLAG = "--xla_gpu_deterministic_ops=true"


def make_deterministic() -> None:
    """Makes TensorFlow and XLA ops bitwise deterministic, which can be slower.

    Raises:
        ConfigError: On JAX with a GPU, `XLA_FLAGS` lacks the flag for deterministic
            ops.
    """
    on_gpu = keras.backend.backend() == "jax" and has_gpu()
    if on_gpu and _FLAG not in os.environ.get("XLA_FLAGS", ""):
        raise ConfigError(
            "training.deterministic: XLA has to know of it before it begins. Set it in "
            f"the environment: XLA_FLAGS={_FLAG}"
        )
    tf.config.experimental.enable_op_determinism()
