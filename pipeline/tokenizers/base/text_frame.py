"""Special tokens around and between the texts of a row, for models that read texts.

    encoder              [CLS] text [SEP]     [CLS] text [SEP] second text [SEP]
    decoder              text                 text </s> second text
    decoder, end_token   text </s>            text </s> second text </s>

A decoder's row begins with the begin token if the tokenizer has one of its own, as in
LLaMA; the end token separates the texts of a pair. Without further tokens the last
token is that of the text, as in Hugging Face's heads; `end_token` adds the extract
token of GPT (ADR 54).

This module only chooses the tokens. Records, exported graphs and parity checks each
place them with an implementation of their own (ADR 24).

References:
    - [Radford et al., 2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf),
      section 3.3 (start, delimiter and extract tokens)
"""

from typing import NamedTuple

from transbeam.configs.loader.objective_requirements import ends_with_end_token
from transbeam.configs.schema.model import DecoderConfig, Model
from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.interface import SpecialIds


class TextFrame(NamedTuple):
    """Ids of the special tokens of a row; None where there is no token.

    Attributes:
        before: The token before the first text.
        between: The token between the texts of a pair.
        after: The token after the last text.
        alone: The only token of a row that would have no token.
    """

    before: int | None
    between: int | None
    after: int | None
    alone: int | None = None

    @property
    def starts(self) -> int:
        """Number of tokens before the first text."""
        return int(self.before is not None)

    def size(self, num_texts: int = 1) -> int:
        """Returns the number of special tokens of a row with one text or two.

        Example:
        >>> TextFrame(1, 2, 2).size(), TextFrame(1, 2, 2).size(2)
        (2, 3)
        """
        return self.starts + num_texts - 1 + (self.after is not None)


def encoder_frame(special: SpecialIds) -> TextFrame:
    """Returns the frame of an encoder's texts: `[CLS]` and `[SEP]`.

    Example:
    >>> encoder_frame(SpecialIds(pad=0, begin=1, end=2))
    TextFrame(before=1, between=2, after=2, alone=None)
    """
    return TextFrame(special.begin, special.end, special.end)


def decoder_frame(special: SpecialIds, *, adds_end: bool) -> TextFrame:
    """Returns the frame of a decoder's texts.

    Args:
        special: Special ids of a tokenizer with an end token.
        adds_end: Adds the end token after the last text.

    Example:
    >>> decoder_frame(SpecialIds(pad=0, begin=0, end=0), adds_end=False)
    TextFrame(before=None, between=0, after=None, alone=0)
    """
    begin, end = special.begin, special.end
    before = begin if begin != end else None
    return TextFrame(before, end, end if adds_end else None, end)


def text_frame(model: Model, special: SpecialIds, *, adds_end: bool) -> TextFrame:
    """Returns the frame for a kind of model; `adds_end` has no effect on an encoder."""
    if isinstance(model, DecoderConfig):
        return decoder_frame(special, adds_end=adds_end)
    return encoder_frame(special)


def embedding_frame(run: RunConfig, special: SpecialIds) -> TextFrame:
    """Returns the frame of the texts of which a run's export computes embeddings.

    A model that was trained for embeddings reads texts as in its training.
    """
    if isinstance(run.objective, EmbeddingObjective):
        return frame_of_run(run, special)
    adds_end = run.export.embedding_pooling == "end_token"
    return text_frame(run.model, special, adds_end=adds_end)


def frame_of_run(run: RunConfig, special: SpecialIds) -> TextFrame:
    """Returns the frame of the texts in a run's records and requests.

    Args:
        run: The configuration of a run whose model has one prediction or vector per
            text, or one prediction per word.
        special: The special ids of its tokenizer.
    """
    return text_frame(run.model, special, adds_end=ends_with_end_token(run))
