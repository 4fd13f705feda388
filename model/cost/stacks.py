"""The stacks of a model, with their sequence lengths."""

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
    """A stack of equal blocks, with its sequence lengths.

    Attributes:
        config: The model's section of a run.
        attention: The attention of this stack.
        num_layers: Number of blocks.
        tokens: Tokens of its sequence.
        causal: True for a decoder.
        context: Tokens of the context in cross-attention, or 0.
    """

    config: StackConfig
    attention: Attention
    num_layers: int
    tokens: int
    causal: bool = False
    context: int = 0

    @property
    def queries(self) -> int:
        """Width of all query heads."""
        return self.attention.num_heads * self.config.head_dim(self.attention)

    @property
    def keys(self) -> int:
        """Width of all key heads, and of all value heads."""
        return self.attention.key_value_heads * self.config.head_dim(self.attention)


def model_stacks(config: Model, lengths: Lengths) -> list[Side]:
    """The stacks of a model: one, or an encoder and a decoder.

    Example:
    >>> from transbeam.configs.schema.attention import FullAttentionConfig
    >>> attention = FullAttentionConfig(num_key_value_heads=1)
    >>> config = Seq2SeqModelConfig(attention=attention)
    >>> lengths = Lengths(tokens=8, decoder_tokens=4)
    >>> [side.keys for side in model_stacks(config, lengths)]
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
    """`decoder_attention`, or its default, the encoder's attention."""
    attention = config.decoder_attention or config.attention
    # The schema has rejected all others.
    assert isinstance(attention, CausalAttention)
    return attention
