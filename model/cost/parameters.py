"""Parameters of a model, part by part, and the number of trained ones.

Parts are named by the prefixes of weight paths, with all blocks of a stack combined:
`encoder_layers/self_attention` is the sum over `encoder_layer_{i}/self_attention/...`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.adaptation import (
    Adaptation,
    AllWeightsConfig,
    FrozenWeightsConfig,
    LoraWeightsConfig,
    check_trained,
)
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.configs.schema.objectives.objective import (
    Objective,
    VectorObjective,
)
from transbeam.model.base.weight_paths import is_head, matching
from transbeam.model.cost.weight_shapes import (
    Shapes,
    count_blocks,
    head_shapes,
    shapes_by_part,
    table_rows,
)

# Layers with a kernel that are no dense layers, and get no adapter.
_NO_DENSE_LAYERS = ("patch_embedding/", "logits/")


@dataclass(frozen=True)
class TrainedParameters:
    """Numbers of trainable parameters and of adapter parameters in a model.

    Attributes:
        numbers: Number of trainable parameters.
        added: Number of trainable parameters in adapters.
    """

    numbers: int
    added: int = 0


def count_parameters(
    config: Model, vocabulary_size: int, objective: Objective | None = None
) -> dict[str, int]:
    """Counts a backbone's weights, with a decoder's output layer but no task heads.

    An encoder's pooler is included. A tied embedding counts once.

    Args:
        config: The `model` section of a run.
        vocabulary_size: Number of tokens, not yet rounded up to `vocabulary_multiple`.
            Ignored for image models.
        objective: The `objective` section, if there is one: a decoder with a task head
            has no output layer.

    Returns:
        Weights by part; parts without weights are left out.

    Example:
    >>> from transbeam.configs.schema.attention import FullAttentionConfig
    >>> from transbeam.configs.schema.model import PoolerConfig
    >>> from transbeam.configs.schema.block import DenseFeedForwardConfig
    >>> bert = EncoderConfig(
    ...     num_layers=12, hidden_dim=768, num_segments=2,
    ...     attention=FullAttentionConfig(num_heads=12),
    ...     feedforward=DenseFeedForwardConfig(intermediate_dim=3072),
    ...     pooler=PoolerConfig(projection=True),
    ... )
    >>> parts = count_parameters(bert, 30_522)
    >>> parts["encoder_layers/feedforward"], sum(parts.values())
    (56669184, 109482240)
    """
    layers = count_blocks(config)
    parts: Counter[str] = Counter()
    for path, shape in shapes_by_part(config, vocabulary_size, objective).items():
        first, second, *_ = path.split("/")
        part = f"{first}/{second}" if first in layers else first
        parts[part] += layers.get(first, 1) * prod(shape)
    return dict(parts)


def count_head(
    config: Model, objective: Objective, vocabulary_size: int
) -> dict[str, int]:
    """Counts the weights of an objective's head.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section.
        vocabulary_size: As in `count_parameters`.

    Returns:
        Weights by part; empty for a model whose backbone computes the logits.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
    >>> count_head(EncoderConfig(hidden_dim=8), MaskedConfig(), 100)
    {'head_dense': 72, 'head_norm': 16, 'head_bias': 100}
    """
    parts: Counter[str] = Counter()
    for path, shape in head_shapes(config, objective, vocabulary_size).items():
        parts[path.partition("/")[0]] += prod(shape)
    return dict(parts)


def as_trained(config: Model, objective: Objective) -> Model:
    """Returns a run's model config, without a pooler that the objective does not use.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
    >>> from transbeam.configs.schema.model import PoolerConfig
    >>> as_trained(EncoderConfig(pooler=PoolerConfig()), MaskedConfig()).pooler is None
    True
    """
    is_pooled = isinstance(objective, VectorObjective)
    if isinstance(config, EncoderConfig) and not is_pooled:
        return replace(config, pooler=None)
    return config


def scored_rows(config: Model, vocabulary_size: int) -> int:
    """Number of logits per token, with a tied table's padding rows (later cut off).

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> scored_rows(DecoderConfig(vocabulary_multiple=128), 32_100)
    32128
    >>> scored_rows(
    ...     DecoderConfig(vocabulary_multiple=128, tie_embeddings=False), 32_100
    ... )
    32100
    """
    if isinstance(config, EncoderConfig) or config.tie_embeddings:
        return table_rows(config, vocabulary_size)
    return vocabulary_size


def scored_dim(config: Model) -> int:
    """Width of the logits' input vectors: that of a tied embedding, if there is one.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> scored_dim(DecoderConfig(hidden_dim=256, embedding_dim=64))
    64
    >>> scored_dim(
    ...     DecoderConfig(hidden_dim=256, embedding_dim=64, tie_embeddings=False)
    ... )
    256
    """
    if isinstance(config, EncoderConfig) or config.tie_embeddings:
        return config.table_dim
    return config.hidden_dim


def count_trained(shapes: Shapes, adaptation: Adaptation) -> TrainedParameters:
    """Counts the trainable parameters under `training.adaptation`.

    Args:
        shapes: Shapes of all weights of a model with its head.
        adaptation: The `training.adaptation` section of a run.

    Raises:
        ConfigError: A pattern matches nothing, or the rank exceeds the smaller
            dimension of a kernel.

    Example:
    >>> shapes = {"layer/query/kernel": (8, 8), "layer/query/bias": (8,)}
    >>> count_trained(shapes, FrozenWeightsConfig(frozen=("*/bias",)))
    TrainedParameters(numbers=64, added=0)
    >>> count_trained(shapes, LoraWeightsConfig(rank=2, targets=("*/query",)))
    TrainedParameters(numbers=32, added=32)
    """
    try:
        trained = _count_trained(shapes, adaptation)
    except ConfigError as error:
        raise ConfigError(f"training.adaptation: {error}") from None
    check_trained(trained.numbers)
    return trained


def _count_trained(shapes: Shapes, adaptation: Adaptation) -> TrainedParameters:
    match adaptation:
        case AllWeightsConfig():
            return TrainedParameters(count_numbers(shapes, shapes))
        case FrozenWeightsConfig(frozen=patterns):
            frozen = matching(shapes, patterns, "weight")
            return TrainedParameters(count_numbers(shapes, shapes.keys() - frozen))
        case LoraWeightsConfig(rank=rank, targets=targets, also_trained=patterns):
            if patterns is None:
                whole = [path for path in shapes if is_head(path)]
            else:
                whole = matching(shapes, patterns, "weight")
            kernels = _adapted(shapes, targets, rank)
            adapters = rank * sum(inputs + outputs for inputs, outputs in kernels)
            return TrainedParameters(
                count_numbers(shapes, whole) + adapters, added=adapters
            )
        case _:
            assert_never(adaptation)


def _adapted(
    shapes: Shapes, targets: tuple[str, ...], rank: int
) -> list[tuple[int, ...]]:
    """Shapes of the kernels that get an adapter."""
    kernels = {
        path.removesuffix("/kernel"): shape
        for path, shape in shapes.items()
        if path.endswith("/kernel") and not path.startswith(_NO_DENSE_LAYERS)
    }
    chosen = matching(kernels, targets, "dense layer")
    for path in chosen:
        if rank > min(kernels[path]):
            raise ConfigError(
                f"{path}: rank={rank} is not between 1 and {min(kernels[path])}, the "
                f"smaller side of its kernel {kernels[path]}"
            )
    return [kernels[path] for path in chosen]


def count_numbers(shapes: Shapes, paths: Iterable[str]) -> int:
    """Counts the elements of some weights.

    Example:
    >>> count_numbers({"a": (2, 3), "b": ()}, ["a", "b"])
    7
    """
    return sum(prod(shapes[path]) for path in paths)
