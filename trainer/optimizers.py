"""Optimizers, and which weights they may shrink."""

import re

import keras

from configs.training import AdamWConfig

# Weight decay would pull these towards values that mean something: a bias towards no
# offset, a norm's scale towards silence, a rare token's vector towards the others.
_NOT_DECAYED = re.compile(r"(bias|gamma|beta|scale|embeddings?)$")


def is_decayed(variable: keras.Variable) -> bool:
    """Whether weight decay applies: matrices yes; biases, norms and embeddings no."""
    return _NOT_DECAYED.search(variable.path) is None


def build_optimizer(
    config: AdamWConfig,
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    variables: list[keras.Variable],
) -> keras.optimizers.Optimizer:
    """AdamW on a model's trainable variables, built and ready to be restored."""
    optimizer = keras.optimizers.AdamW(
        learning_rate=schedule,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        epsilon=config.epsilon,
        weight_decay=config.weight_decay,
        global_clipnorm=config.clip_norm,
    )
    optimizer.exclude_from_weight_decay(
        var_list=[variable for variable in variables if not is_decayed(variable)]
    )
    optimizer.build(variables)
    return optimizer
