"""The lengths of the sequences whose cost is counted."""

from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import EncoderConfig, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of a sequence, or of encoder and decoder sequence.

    Attributes:
        tokens: Tokens of the sequence; of the encoder in an encoder-decoder.
        decoder_tokens: Tokens of the decoder in an encoder-decoder, else 0.
    """

    tokens: int
    decoder_tokens: int = 0

    @property
    def together(self) -> int:
        """All tokens of a record."""
        return self.tokens + self.decoder_tokens


def record_lengths(run: RunConfig, tokens: int | None = None) -> Lengths:
    """The lengths of a run's records.

    Args:
        run: The run.
        tokens: Replaces `data.sequence_length`. A decoder's length is the objective's,
            which may depend on it.

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
