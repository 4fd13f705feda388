"""The stacks of a model, and the lengths of the sequences whose cost is counted."""

from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import Attention, CausalAttention
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    Seq2SeqModelConfig,
    StackConfig,
)
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.objective import EmbeddingObjective, Objective
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Length of the sequence, or lengths of the encoder's and the decoder's sequences.

    Attributes:
        tokens: Number of tokens in the sequence; in an encoder-decoder, in the
            encoder's sequence.
        decoder_tokens: Number of tokens in the decoder's sequence in an
            encoder-decoder, else 0.
    """

    tokens: int
    decoder_tokens: int = 0

    @property
    def together(self) -> int:
        """Number of tokens in a record, over encoder and decoder."""
        return self.tokens + self.decoder_tokens


def sequences_per_record(objective: Objective) -> int:
    """Number of sequences that the model reads of a record.

    An encoder and a decoder read one pair of sequences.

    Example:
    >>> from transbeam.configs.schema.objectives.contrastive import (
    ...     ContrastivePairsConfig,
    ... )
    >>> sequences_per_record(ContrastivePairsConfig())
    2
    """
    is_embedding = isinstance(objective, EmbeddingObjective)
    return objective.texts_per_record if is_embedding else 1


def record_lengths(run: RunConfig, tokens: int | None = None) -> Lengths:
    """The lengths of a run's records.

    Args:
        run: The run.
        tokens: Replaces `data.sequence_length`. The objective sets the decoder's
            length, which may depend on `tokens`.

    Raises:
        ConfigError: A length exceeds the model's maximum.
    """
    model = run.model
    if isinstance(model, EncoderConfig) and model.patches is not None:
        squares = model.patches.sequence_length
        if tokens not in (None, squares):
            raise ConfigError(
                f"--length {tokens}: an image is always {squares} tokens, its squares "
                "and one for the class. Leave --length out"
            )
        return Lengths(tokens=squares)
    tokens = run.data.sequence_length if tokens is None else tokens
    if tokens > model.max_sequence_length:
        raise ConfigError(
            f"a length of {tokens} is more than model.max_sequence_length="
            f"{model.max_sequence_length}. Give a smaller --length, or change the model"
        )
    if not isinstance(model, Seq2SeqModelConfig):
        return Lengths(tokens=tokens)
    objective = run.objective
    if isinstance(objective, SpanCorruptionConfig):
        return Lengths(tokens=tokens, decoder_tokens=objective.target_length(tokens))
    # `check_model` has rejected all others.
    assert isinstance(objective, Seq2SeqConfig | TextToTextConfig)
    return Lengths(tokens=tokens, decoder_tokens=objective.decoder_length)


@dataclass(frozen=True, kw_only=True)
class CostedStack:
    """A stack of identically configured blocks, with its sequence lengths.

    Attributes:
        config: The `model` section of a run.
        attention: The attention config of this stack.
        num_layers: Number of blocks.
        tokens: Number of tokens in the stack's sequence.
        causal: True for a decoder.
        context: Number of tokens in the context of cross-attention, or 0.
    """

    config: StackConfig
    attention: Attention
    num_layers: int
    tokens: int
    causal: bool = False
    context: int = 0

    @property
    def queries(self) -> int:
        """Total width of all query heads."""
        return self.attention.num_heads * self.config.head_dim(self.attention)

    @property
    def keys(self) -> int:
        """Total width of all key heads, which equals that of all value heads."""
        return self.attention.key_value_heads * self.config.head_dim(self.attention)


def model_stacks(config: Model, lengths: Lengths) -> list[CostedStack]:
    """The stacks of a model: one, or an encoder and a decoder.

    Example:
    >>> from transbeam.configs.schema.attention import FullAttentionConfig
    >>> attention = FullAttentionConfig(num_key_value_heads=1)
    >>> config = Seq2SeqModelConfig(attention=attention)
    >>> lengths = Lengths(tokens=8, decoder_tokens=4)
    >>> [side.keys for side in model_stacks(config, lengths)]
    [64, 64]
    """
    first = CostedStack(
        config=config,
        attention=config.attention,
        num_layers=config.num_layers,
        tokens=lengths.tokens,
        causal=isinstance(config, DecoderConfig),
    )
    if not isinstance(config, Seq2SeqModelConfig):
        return [first]
    second = CostedStack(
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
