"""The pictures of all kinds of a key, by small examples."""

from collections.abc import Callable, Mapping
from typing import Any

from transbeam.configs.base.reflection import section_kinds
from transbeam.configs.schema import attention as kinds
from transbeam.configs.schema.attention import Attention, CausalAttention
from transbeam.configs.schema.block import (
    LinearStretchConfig,
    NtkStretchConfig,
    Position,
    RopePositionConfig,
    YarnStretchConfig,
)
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.configs.schema.schedules import Schedule
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
from transbeam.trainer.explanation.mask_pictures import (
    draw_masks,
    one_document,
    packed_documents,
    with_prefix,
)
from transbeam.trainer.explanation.picture import Picture
from transbeam.trainer.explanation.position_pictures import draw_position
from transbeam.trainer.explanation.schedule_pictures import draw_schedules

# Sizes of the examples.
_POSITIONS, _TOKENS, _STEPS = 128, 32, 1_000
_STRETCHES = (
    LinearStretchConfig(factor=4.0),
    NtkStretchConfig(factor=4.0),
    YarnStretchConfig(factor=4.0, original_length=64),
)
_SMALL_ATTENTIONS: dict[str, Attention] = {
    "full": kinds.FullAttentionConfig(),
    "sliding_window": kinds.SlidingWindowAttentionConfig(window_size=8),
    "global_window": kinds.GlobalWindowAttentionConfig(
        window_size=6, num_global_tokens=2
    ),
    "block_sparse": kinds.BlockSparseAttentionConfig(
        num_heads=1, block_size=2, num_random_blocks=1
    ),
    "low_rank": kinds.LowRankAttentionConfig(rank=8),
    "kernel": kinds.KernelAttentionConfig(),
}


def _draw_positions() -> list[Picture]:
    pictures = []
    for section in section_kinds(Position).values():
        variants: list[Any] = [section()]
        if section is RopePositionConfig:
            variants += [RopePositionConfig(stretch=stretch) for stretch in _STRETCHES]
        pictures += [
            draw_position(_example(variant), _POSITIONS) for variant in variants
        ]
    return pictures


def _example(position: Position) -> StackSpec:
    """An encoder with a position encoding, wide enough for its structure to show."""
    config = EncoderConfig(
        hidden_dim=128,
        max_sequence_length=_POSITIONS,
        position=position,
        attention=kinds.FullAttentionConfig(num_heads=8 if _has_heads(position) else 2),
    )
    return stack_specs(config)["encoder"]


def _has_heads(position: Position) -> bool:
    return "alibi" in position.kind


def _draw_attentions() -> list[Picture]:
    encoder = stack_specs(EncoderConfig(max_sequence_length=_TOKENS))["encoder"]
    decoder = stack_specs(DecoderConfig(max_sequence_length=_TOKENS))["decoder"]
    rows = {
        "encoder": one_document(_TOKENS),
        "encoder, packed": packed_documents(_TOKENS),
    }
    pictures = []
    for kind in section_kinds(Attention):
        attention = _SMALL_ATTENTIONS[kind]
        others: dict[str, tuple[StackSpec, Mapping[str, Any]]] = {}
        if isinstance(attention, CausalAttention):
            others = {
                "decoder": (decoder, one_document(_TOKENS)),
                "decoder, packed": (decoder, packed_documents(_TOKENS)),
            }
        if kind == "full":
            others["decoder, prefix"] = decoder, with_prefix(_TOKENS)
        pictures.append(draw_masks(encoder, rows, attention, others))
    return pictures


def _draw_schedules() -> list[Picture]:
    schedules = {
        kind: section(**({} if kind == "noam" else {"peak": 1e-3}))
        for kind, section in section_kinds(Schedule).items()
    }
    return [draw_schedules(schedules, _STEPS, hidden_dim=512)]


# Keys of which there are pictures.
DRAWN_KEYS: dict[str, Callable[[], list[Picture]]] = {
    "model.position": _draw_positions,
    "model.attention": _draw_attentions,
    "training.schedule": _draw_schedules,
}
