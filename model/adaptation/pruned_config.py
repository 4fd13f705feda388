"""Derives the configuration of a model with fewer heads and feed-forward units."""

from dataclasses import replace
from typing import assert_never

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    Attention,
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DirectedAlibiPositionConfig,
    FeedForward,
    NoFeedForwardConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    Seq2SeqModelConfig,
)

_UNITS_ALONE = "Leave heads out, and prune the units in between alone (intermediate)"


def find_attention_config(model: Model, path: str) -> Attention:
    """Returns the configuration of one attention layer.

    Args:
        model: The `model` section of a run.
        path: The layer's path, such as `encoder_layer_0/self_attention`.

    Example:
    >>> model = Seq2SeqModelConfig(decoder_attention=FullAttentionConfig(num_heads=2))
    >>> find_attention_config(model, "decoder_layer_0/cross_attention").num_heads
    2
    """
    if isinstance(model, Seq2SeqModelConfig) and path.startswith("decoder_"):
        return model.decoder_attention or model.attention
    return model.attention


def pruned_config(
    model: Model, *, heads: int | None = None, intermediate: int | None = None
) -> Model:
    """Reduces the numbers of heads and feed-forward units, equally in every block.

    A head keeps its width, so `head_dim` is set explicitly. In an encoder-decoder, all
    attention layers of both stacks get the same number of heads.

    All key-value groups stay, each with equally many query heads; without grouped-query
    attention, a head's keys and values are removed with it.

    Args:
        model: The `model` section of a run.
        heads: Number of heads to keep in each attention layer; None for all.
        intermediate: Number of units to keep in each feed-forward layer; None for all.

    Returns:
        The section with the new `num_heads`, `head_dim`, `num_key_value_heads` and
        `feedforward.intermediate_dim`.

    Raises:
        ConfigError: No head or unit would be removed, groups of query heads would
            differ in size, or the configuration cannot express which heads remain,
            because slopes or random blocks depend on a head's index.

    Example:
    >>> small = pruned_config(EncoderConfig(hidden_dim=64), heads=3, intermediate=100)
    >>> small.attention.num_heads, small.attention.head_dim
    (3, 16)
    >>> small.feedforward.intermediate_dim
    100
    """
    if heads is None and intermediate is None:
        raise ConfigError(
            "nothing is to go: say how many heads are left, how many units in between "
            "(intermediate), or both"
        )
    if heads is not None:
        model = _with_heads(model, heads)
    if intermediate is not None:
        model = replace(model, feedforward=_narrower(model.feedforward, intermediate))
    return model


def _narrower(feedforward: FeedForward, intermediate: int) -> FeedForward:
    if isinstance(feedforward, NoFeedForwardConfig):
        raise ConfigError(
            f"intermediate={intermediate}: with model.feedforward.kind=none there are "
            "no units in between. Leave intermediate out"
        )
    there = feedforward.intermediate_dim
    _check_fewer("intermediate", intermediate, "feedforward.intermediate_dim", there)
    return replace(feedforward, intermediate_dim=intermediate)


def _with_heads(model: Model, heads: int) -> Model:
    if isinstance(model.position, AlibiPositionConfig | DirectedAlibiPositionConfig):
        raise ConfigError(
            f"heads={heads}: with model.position.kind={model.position.kind} each head "
            "has a slope by its number, and the configuration cannot say which heads "
            f"are left. {_UNITS_ALONE}"
        )
    match model:
        case EncoderConfig() | DecoderConfig():
            attention = _fewer(model, model.attention, heads, "attention")
            return replace(model, attention=attention)
        case Seq2SeqModelConfig():
            attention = _fewer(model, model.attention, heads, "attention")
            decoder = model.decoder_attention
            if decoder is not None:
                decoder = _fewer(model, decoder, heads, "decoder_attention")
            return replace(model, attention=attention, decoder_attention=decoder)
        case _:
            assert_never(model)


def _fewer(model: Model, attention: Attention, heads: int, key: str) -> Attention:
    match attention:
        case BlockSparseAttentionConfig(num_random_blocks=number):
            if number:
                raise ConfigError(
                    f"heads={heads}: with model.{key}.kind=block_sparse each head "
                    "looks at blocks drawn for its number, and the configuration "
                    f"cannot say which heads are left. {_UNITS_ALONE}"
                )
        case (
            FullAttentionConfig()
            | SlidingWindowAttentionConfig()
            | GlobalWindowAttentionConfig()
            # Their projections and random features are shared by all heads.
            | LowRankAttentionConfig()
            | KernelAttentionConfig()
        ):
            pass
        case _:
            assert_never(attention)
    _check_fewer("heads", heads, f"{key}.num_heads", attention.num_heads)
    groups = attention.num_key_value_heads
    if attention.key_value_heads == attention.num_heads:
        groups = None if groups is None else heads
    elif heads % attention.key_value_heads:
        raise ConfigError(
            f"heads={heads} is not a multiple of model.{key}.num_key_value_heads="
            f"{groups}: heads that share keys and values stay as many in each group. "
            f"Give {groups}, or a multiple of it"
        )
    return replace(
        attention,
        num_heads=heads,
        num_key_value_heads=groups,
        head_dim=model.head_dim(attention),
    )


def _check_fewer(name: str, requested: int, key: str, there: int) -> None:
    if requested < 1:
        raise ConfigError(f"{name}={requested}: one at least must be left")
    if requested >= there:
        raise ConfigError(
            f"{name}={requested}: model.{key} is {there}, so nothing would be pruned. "
            f"Give less than {there}, or leave {name} out"
        )
