"""Builds optimizers, and selects the weights that are decayed."""

import re
from collections.abc import Sequence
from typing import assert_never

import keras

from transbeam.configs.schema.optimizers import (
    AdafactorConfig,
    AdamWConfig,
    LionConfig,
    MuonConfig,
    Optimizer,
)
from transbeam.trainer.optimizers.adafactor import Adafactor
from transbeam.trainer.optimizers.adamw import AdamW

# Output layers. Muon is for the weights between them and the embeddings; Keras excludes
# both by path.
SCORING = ["logits/", "classifier/", "regressor/"]


def is_decayed(path: str, not_decayed: Sequence[str]) -> bool:
    """Returns whether weight decay applies to a weight.

    Args:
        path: The weight's path, such as `encoder_layer_0/feedforward/output/kernel`.
        not_decayed: Regular expressions; weights whose path matches one are excluded.

    Example:
    >>> is_decayed("head_dense/kernel", ["bias$"]), is_decayed("query/bias", ["bias$"])
    (True, False)
    """
    return not any(re.search(pattern, path) for pattern in not_decayed)


def build_optimizer(
    config: Optimizer,
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    variables: Sequence[keras.Variable],
) -> keras.optimizers.Optimizer:
    """Creates an optimizer and builds it for a model's trainable variables.

    The optimizer neither clips gradients nor averages weights: `UpdateRule` does both.

    Args:
        config: The `training.optimizer` section of a run.
        schedule: The learning rate of each step.
        variables: The variables to update.

    Example:
    >>> from transbeam.trainer.optimizers.schedules import Warmup
    >>> kernel = keras.Variable([8.0], name="kernel")
    >>> bias = keras.Variable([8.0], name="bias")
    >>> lion = LionConfig(weight_decay=0.5)
    >>> optimizer = build_optimizer(lion, Warmup(0.5, 0), [kernel, bias])
    >>> optimizer.apply([keras.ops.ones(1), keras.ops.ones(1)], [kernel, bias])
    >>> kernel.numpy().item(), bias.numpy().item()
    (5.5, 7.5)
    """
    optimizer = _make(config, schedule)
    optimizer.exclude_from_weight_decay(
        var_list=[
            variable
            for variable in variables
            if not is_decayed(variable.path, config.not_decayed)
        ]
    )
    optimizer.build(list(variables))
    return optimizer


def _make(
    config: Optimizer, schedule: keras.optimizers.schedules.LearningRateSchedule
) -> keras.optimizers.Optimizer:
    match config:
        case AdamWConfig():
            return AdamW(
                schedule,
                beta_1=config.beta_1,
                beta_2=config.beta_2,
                epsilon=config.epsilon,
                weight_decay=config.weight_decay,
            )
        case AdafactorConfig():
            return Adafactor(
                schedule,
                decay_exponent=config.decay_exponent,
                epsilon_1=config.epsilon_1,
                epsilon_2=config.epsilon_2,
                clip_threshold=config.clip_threshold,
                weight_decay=config.weight_decay,
            )
        case LionConfig():
            return keras.optimizers.Lion(
                schedule,
                beta_1=config.beta_1,
                beta_2=config.beta_2,
                weight_decay=config.weight_decay,
            )
        case MuonConfig():
            return keras.optimizers.Muon(
                schedule,
                adam_beta_1=config.beta_1,
                adam_beta_2=config.beta_2,
                adam_weight_decay=config.weight_decay,
                epsilon=config.epsilon,
                weight_decay=config.weight_decay,
                exclude_layers=SCORING,
                momentum=config.momentum,
            )
        case _:
            assert_never(config)
