"""Trains only some of a model's weights, or LoRA adapters."""

from pathlib import Path
from typing import assert_never

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.adaptation import (
    Adaptation,
    AllWeightsConfig,
    FrozenWeightsConfig,
    LoraWeightsConfig,
    check_trained,
)
from transbeam.model.adaptation.freezing import (
    ParameterCount,
    count_parameters,
    freeze,
    unfreeze,
)
from transbeam.model.adaptation.lora import (
    adapted_layers,
    enable_lora,
    merge_lora,
    save_adapters,
)
from transbeam.model.base.weight_paths import is_head

ADAPTERS = "adapters.safetensors"


def adapt(model: keras.Model, config: Adaptation, seed: int) -> ParameterCount:
    """Freezes weights or adds LoRA adapters, as configured.

    Must be called after the initial weights are loaded, and before the optimizer, the
    moving averages and the update function are built for the trainable variables.

    Args:
        model: A built model with its initial weights.
        config: The `training.adaptation` section of a run.
        seed: Seed for the one matrix of each adapter that is initialized at random.

    Returns:
        The number of trainable parameters, and of all parameters.

    Raises:
        ConfigError: A pattern matches no weight, the rank is larger than a kernel's, or
            no trainable weight is left.

    Example:
    >>> inputs = keras.Input((3,))
    >>> model = keras.Model(inputs, keras.layers.Dense(2, name="pooler")(inputs))
    >>> print(adapt(model, FrozenWeightsConfig(frozen=("*/kernel",)), seed=0))
    2 of 8 parameters trained (25.00%)
    """
    try:
        counted = _adapt(model, config, seed)
    except ConfigError as error:
        raise ConfigError(f"training.adaptation: {error}") from None
    check_trained(counted.trainable)
    return counted


def _adapt(model: keras.Model, config: Adaptation, seed: int) -> ParameterCount:
    match config:
        case AllWeightsConfig():
            return count_parameters(model)
        case FrozenWeightsConfig(frozen=patterns):
            return freeze(model, patterns)
        case LoraWeightsConfig(targets=targets, also_trained=patterns):
            if patterns is None:
                patterns = [w.path for w in model.weights if is_head(w.path)]
            enable_lora(model, config.rank, config.alpha, targets=targets, seed=seed)
            return unfreeze(model, patterns)
        case _:
            assert_never(config)


def finish_adaptation(model: keras.Model, folder: Path | None) -> bool:
    """Saves a model's adapters and merges them into its kernels, if it has any.

    Keras would merge the adapters itself when it saves a model, but would round the sum
    to the compute dtype.

    Args:
        model: The trained model.
        folder: Folder for `adapters.safetensors`; None if another worker writes it.

    Returns:
        True if the model had adapters.

    Raises:
        ArtifactError: The file cannot be written.
    """
    if not adapted_layers(model):
        return False
    if folder is not None:
        save_adapters(model, folder / ADAPTERS)
    merge_lora(model)
    return True
