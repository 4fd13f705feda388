"""`objective`: self-supervised language modeling objectives."""

import math
from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Selection and masking of tokens, common to `masked` and `sentence_pairs`."""

    kind: str = ""
    masking_fraction: float = option(0.15, minimum=0.01, maximum=0.9)
    """Share of a record's tokens, special ones excluded, that are selected for
    prediction.
    """

    mask_fraction: float = option(0.8, minimum=0.0, maximum=1.0)
    """Share of the selected tokens that are replaced by [MASK]."""

    random_fraction: float = option(0.1, minimum=0.0, maximum=1.0)
    """Share of the selected tokens that are replaced by a random token; the rest is
    left unchanged.
    """

    whole_words: bool = False
    """Whole-word masking: select all tokens of a word together."""

    ngram: int = option(1, minimum=1, maximum=16)
    """Maximum length of n-gram masking: n consecutive units are selected together, with
    probability proportional to 1/n. Units are words with `whole_words`, else tokens.
    """

    def __post_init__(self) -> None:
        if self.mask_fraction + self.random_fraction > 1.0 + 1e-9:
            raise ConfigError(
                f"mask_fraction={self.mask_fraction} and "
                f"random_fraction={self.random_fraction} add up to more than 1"
            )

    def predictions_per_record(self, sequence_length: int) -> int:
        """The fixed number of slots for masked tokens in a record.

        Example:
        >>> MaskedConfig().predictions_per_record(128)
        20
        """
        return math.ceil(self.masking_fraction * sequence_length)


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(MaskingConfig):
    """Masked language modeling (BERT): predicts masked tokens from both sides."""

    kind: Literal["masked"] = "masked"
    masking: Literal["static", "dynamic"] = "static"
    """`static`: the data job masks once for all epochs. `dynamic`: the trainer draws
    new masks in each epoch (RoBERTa).
    """

    copies: int = option(1, minimum=1)
    """With static masking: number of copies of each training record, each with
    different masks.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masking == "dynamic" and self.copies > 1:
            raise ConfigError(
                f"copies={self.copies} has no use with masking=dynamic, which hides "
                "other tokens in each epoch. Leave it out"
            )


@dataclass(frozen=True, kw_only=True)
class SentencePairsConfig(MaskingConfig):
    """Masked language modeling on pairs of segments (BERT, ALBERT).

    The model also predicts the relation of the second segment to the first.
    """

    kind: Literal["sentence_pairs"] = "sentence_pairs"
    task: Literal["next_sentence", "sentence_order"] = "next_sentence"
    """`next_sentence`: predict if the second segment follows the first or comes from
    another document (BERT). `sentence_order`: predict if the two segments are in order
    or swapped (ALBERT).
    """

    sentences: Literal["punctuation", "lines"] = "punctuation"
    """Sentence boundaries: `punctuation` splits after `.`, `!`, `?` and at line ends;
    `lines` at line ends only.
    """

    short_fraction: float = option(0.1, minimum=0.0, maximum=1.0)
    """Share of the pairs with a random, shorter target length."""

    @property
    def pair_labels(self) -> tuple[str, str]:
        """Names of the two classes of pairs, in the order of their ids.

        Example:
        >>> SentencePairsConfig(task="sentence_order").pair_labels
        ('in_order', 'swapped')
        """
        if self.task == "next_sentence":
            return "next", "unrelated"
        return "in_order", "swapped"


@dataclass(frozen=True, kw_only=True)
class CausalConfig:
    """Causal language modeling (GPT): predicts each token from those before it."""

    kind: Literal["causal"] = "causal"


@dataclass(frozen=True, kw_only=True)
class PrefixConfig:
    """Prefix language modeling: predicts a document's end from its beginning.

    Attention is bidirectional within the prefix, the beginning of the document.
    """

    kind: Literal["prefix"] = "prefix"


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig:
    """Span corruption (T5): replaces spans by sentinels and predicts the spans.

    `data.sequence_length` is the encoder's length.
    """

    kind: Literal["span_corruption"] = "span_corruption"
    noise_density: float = option(0.15, minimum=0.01, maximum=0.9)
    """Share of a document's tokens that are replaced by sentinels."""

    mean_noise_span_length: float = option(3.0, minimum=1.0)
    """Mean number of tokens in a replaced span."""

    decoder_length: int | None = option(None, minimum=4)
    """Decoder tokens per record. Left out: 1.5 times what one text that fills the
    encoder needs.
    """

    def target_length(self, encoder_length: int) -> int:
        """Decoder tokens per record.

        The default is 1.5 times the number of decoder tokens for one text that fills
        the encoder, because several short texts need more sentinels and end tokens.

        Example:
        >>> SpanCorruptionConfig().target_length(512)
        184
        """
        if self.decoder_length is not None:
            return self.decoder_length
        noise = encoder_length * self.noise_density / (1.0 - self.noise_density)
        target = noise * (1.0 + 1.0 / self.mean_noise_span_length)
        return 8 * math.ceil(target * 1.5 / 8)

    def longest_text(self, encoder_length: int) -> int:
        """The largest number of text tokens that always fit encoder and decoder."""
        target_length = self.target_length(encoder_length)
        longest = 1
        while True:
            tokens = longest + 1
            noise, spans = self._most(tokens)
            least_noise = math.floor(tokens * self.noise_density)
            fits_encoder = tokens - least_noise + spans + 1 <= encoder_length
            if not fits_encoder or noise + spans + 1 > target_length:
                return longest
            longest = tokens

    def num_sentinels(self, encoder_length: int) -> int:
        """The largest number of sentinels that the spans of one text may need.

        Example:
        >>> SpanCorruptionConfig().num_sentinels(512)
        30
        """
        return self._most(self.longest_text(encoder_length))[1]

    def _most(self, tokens: int) -> tuple[int, int]:
        """Largest numbers of noise tokens and of spans, for a text of given length."""
        noise = math.ceil(tokens * self.noise_density)
        # A span that wraps around the text's end counts as two.
        return noise, math.ceil(noise / self.mean_noise_span_length) + 1
