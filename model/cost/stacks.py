"""The stacks of a model, and how long the sequences are that they read."""

from dataclasses import dataclass

from transbeam.configs.schema.attention import Attention, CausalAttention
from transbeam.configs.schema.model import (
    DecoderConfig,
    Model,
    Seq2SeqModelConfig,
    StackConfig,
)
from transbeam.model.cost.sequence_lengths import Lengths


@dataclass(frozen=True, kw_only=True)
class Side:
    """One stack of equal blocks, and what it reads.

    Attributes:
        config: The model's section of a run.
        attention: The attention of this stack.
        num_layers: How many blocks it has.
        tokens: Tokens of its sequence.
        causal: Whether it is a decoder.
        context: Tokens of the sequence that its blocks look at besides, or 0.
    """

    config: StackConfig
    attention: Attention
    num_layers: int
    tokens: int
    causal: bool = False
    context: int = 0

    @property
    def queries(self) -> int:
        """Numbers of a token's queries."""
        return self.attention.num_heads * self.config.head_dim(self.attention)

    @property
    def keys(self) -> int:
        """Numbers of a token's keys, and as many of its values."""
        return self.attention.key_value_heads * self.config.head_dim(self.attention)


def sides_of(config: Model, lengths: Lengths) -> list[Side]:
    """The stacks of a model: one, or an encoder and a decoder.

    Example:
    >>> from transbeam.configs.schema.attention import FullAttentionConfig
    >>> attention = FullAttentionConfig(num_key_value_heads=1)
    >>> config = Seq2SeqModelConfig(attention=attention)
    >>> [side.keys for side in sides_of(config, Lengths(tokens=8, decoder_tokens=4))]
    [64, 64]
    """
    first = Side(
        config=config,
        attention=config.attention,
        num_layers=config.num_layers,
        tokens=lengths.tokens,
        causal=isinstance(config, DecoderConfig),
    )
    if not isinstance(config, Seq2SeqModelConfig):
        return [first]
    second = Side(
        config=config,
        attention=decoder_attention(config),
        num_layers=config.decoder_layers,
        tokens=lengths.decoder_tokens,
        causal=True,
        context=lengths.tokens,
    )
    return [first, second]


def decoder_attention(config: Seq2SeqModelConfig) -> CausalAttention:
    """`decoder_attention`, or what it is when left out."""
    attention = config.decoder_attention or config.attention
    # The schema has refused all others.
    assert isinstance(attention, CausalAttention)
    return attention
