"""Configurations like a given one, but longer, deeper, wider or with larger batches."""

from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, assert_never, get_args

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import HeadsConfig
from transbeam.configs.schema.block import NoFeedForwardConfig
from transbeam.configs.schema.data import BucketedLayoutConfig, PackedLayoutConfig
from transbeam.configs.schema.model import EncoderConfig, Model, Seq2SeqModelConfig
from transbeam.configs.schema.run import RunConfig

Axis = Literal["length", "depth", "width", "batch"]
AXES: tuple[Axis, ...] = get_args(Axis)
# Of the own size; the last one where fewer than four sizes are left.
_FACTORS = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_POINTS = 4


def own_size(run: RunConfig, axis: Axis) -> int:
    """The size of a run along an axis.

    Args:
        run: The run.
        axis: `length`: tokens per record, of the encoder if there are two; `depth`:
            blocks, of the encoder if there are two; `width`: the hidden states' size;
            `batch`: records per update.
    """
    match axis:
        case "length":
            images = isinstance(run.model, EncoderConfig) and run.model.patches
            return images.sequence_length if images else run.data.sequence_length
        case "depth":
            return run.model.num_layers
        case "width":
            return run.model.hidden_dim
        case "batch":
            return run.training.batch_size
        case _:
            assert_never(axis)


def sizes(run: RunConfig, axis: Axis) -> list[int]:
    """Sizes along an axis around that of a run, in ascending order.

    Returns:
        A quarter, half, once and twice the run's own size, as far as they are whole
        numbers; four times, if there are fewer than four. Not every size may fit the
        run's other keys; see `scale`.
    """
    own = own_size(run, axis)
    whole = [int(own * x) for x in _FACTORS if (own * x).denominator == 1]
    return whole[:-1] if len(whole) > _POINTS else whole


def scale(run: RunConfig, axis: Axis, size: int) -> RunConfig:
    """Derives a run of another size along an axis.

    Longer records get a larger `max_sequence_length` if needed. A wider model has more
    heads of the same width, or wider heads if their number cannot be scaled; its
    feed-forward grows in proportion. The decoder of an encoder-decoder grows with the
    encoder in depth and width, not in length.

    Args:
        run: The run.
        axis: The axis.
        size: The new size.

    Raises:
        ConfigError: The run has no such size; the message says which key forbids it.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> source = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> wide = scale(RunConfig(name="tiny", data=source), "width", 512).model
    >>> wide.attention.num_heads, wide.feedforward.intermediate_dim
    (8, 2048)
    """
    if size == own_size(run, axis):
        return run
    match axis:
        case "length":
            return _longer(run, size)
        case "depth":
            return replace(run, model=_deeper(run.model, size))
        case "width":
            return replace(run, model=_wider(run.model, size))
        case "batch":
            return replace(run, training=replace(run.training, batch_size=size))
        case _:
            assert_never(axis)


def _longer(run: RunConfig, tokens: int) -> RunConfig:
    if isinstance(run.model, EncoderConfig) and run.model.patches is not None:
        raise ConfigError(
            f"an image is always {run.model.patches.sequence_length} tokens "
            "(model.patches)"
        )
    layout = run.data.layout
    if isinstance(layout, BucketedLayoutConfig):
        layout = PackedLayoutConfig()
    longest = max(run.model.max_sequence_length, tokens)
    return replace(
        run,
        data=replace(run.data, sequence_length=tokens, layout=layout),
        model=replace(run.model, max_sequence_length=longest),
    )


def _deeper(model: Model, layers: int) -> Model:
    changed: dict[str, Any] = {"num_layers": layers}
    if isinstance(model, Seq2SeqModelConfig) and model.num_decoder_layers is not None:
        decoder = round(model.num_decoder_layers * layers / model.num_layers)
        changed["num_decoder_layers"] = max(decoder, 1)
    return replace(model, **changed)


def _wider(model: Model, width: int) -> Model:
    factor = Fraction(width, model.hidden_dim)
    changed: dict[str, Any] = {
        "hidden_dim": width,
        "attention": _more_heads(model.attention, factor),
    }
    if isinstance(model, Seq2SeqModelConfig) and model.decoder_attention is not None:
        changed["decoder_attention"] = _more_heads(model.decoder_attention, factor)
    feedforward = model.feedforward
    if not isinstance(feedforward, NoFeedForwardConfig):
        wide = _times(
            "feedforward.intermediate_dim", feedforward.intermediate_dim, factor
        )
        changed["feedforward"] = replace(feedforward, intermediate_dim=wide)
    if model.embedding_dim is not None:
        changed["embedding_dim"] = min(model.embedding_dim, width)
    return replace(model, **changed)


def _more_heads(attention: HeadsConfig, factor: Fraction) -> HeadsConfig:
    heads = attention.num_heads * factor
    keys = attention.num_key_value_heads
    if heads.denominator == 1 and (keys is None or (keys * factor).denominator == 1):
        scaled = None if keys is None else int(keys * factor)
        return replace(attention, num_heads=int(heads), num_key_value_heads=scaled)
    if attention.head_dim is None:
        return attention  # as many heads, which follow the width
    wide = _times("attention.head_dim", attention.head_dim, factor)
    return replace(attention, head_dim=wide)


def _times(key: str, size: int, factor: Fraction) -> int:
    scaled = size * factor
    if scaled.denominator != 1:
        raise ConfigError(f"model.{key}={size} times {factor} is no whole number")
    return int(scaled)
