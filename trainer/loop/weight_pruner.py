"""Pruning of single weights while a model trains, at the steps of a schedule."""

from collections.abc import Sequence

import keras
import numpy as np

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.pruning import PruningConfig
from transbeam.model.adaptation.weight_pruning import magnitude_masks
from transbeam.model.base.weight_paths import select_prunable
from transbeam.trainer.base.weight_files import copy_to_host
from transbeam.trainer.step.state import TrainState


def prunable_weights(
    model: keras.Model, config: PruningConfig | None
) -> list[keras.Variable]:
    """Selects the weights of a model that its training prunes.

    Args:
        model: The model, with frozen weights already frozen.
        config: The `training.pruning` section of a run.

    Raises:
        ConfigError: A pattern matches no weight, or the patterns match no trainable
            matrix.
    """
    if config is None:
        return []
    weights = {weight.path: weight for weight in model.weights}
    shapes = {path: tuple(weight.shape) for path, weight in weights.items()}
    try:
        chosen = [weights[path] for path in select_prunable(shapes, config.targets)]
    except ConfigError as error:
        raise ConfigError(f"training.pruning.targets: {error}") from None
    trained = [weight for weight in chosen if weight.trainable]
    if not trained:
        raise ConfigError(
            f"training.pruning.targets: {chosen[0].path} and the others are frozen by "
            "training.adaptation, and frozen weights are not pruned. Prune the run "
            "afterwards with `transbeam prune --weights`, or freeze other weights"
        )
    return trained


class WeightPruner:
    """Sets the smallest weights of a training to zero at the steps of its schedule.

    The masks are computed on the host from the current weights, not from the moving
    averages. All workers compute the same masks, since their weights are equal.

    Args:
        state: The training's state, with the weights to prune and their masks.
        config: The `training.pruning` section of a run.

    References:
        - [Zhu & Gupta, 2017](https://arxiv.org/abs/1710.01878), section 3
    """

    def __init__(self, state: TrainState, config: PruningConfig):
        self.state = state
        self.config = config
        self.sparsity = self._measure([copy_to_host(mask) for mask in state.masks])

    def prune(self, step: int) -> None:
        """Prunes the weights if the schedule has a pruning after this step.

        Repeating it after a resume changes nothing.
        """
        if not self.config.is_due(step):
            return
        paths = [weight.path for weight in self.state.pruned]
        before = [copy_to_host(mask) for mask in self.state.masks]
        masks = magnitude_masks(
            {weight.path: copy_to_host(weight) for weight in self.state.pruned},
            self.config.sparsity_at(step),
            self.config.scope,
            dict(zip(paths, before, strict=True)),
        )
        self.state.set_masks([masks[path] for path in paths])
        self.sparsity = self._measure(list(masks.values()))

    def is_finished(self, step: int) -> bool:
        """Returns whether the share of zeros after a step is the final one."""
        return step >= self.config.end_step

    def _measure(self, masks: Sequence[np.ndarray]) -> float:
        return 1.0 - sum(int(m.sum()) for m in masks) / sum(m.size for m in masks)
