"""Checks that MediaPipe can run a model and tokenizes texts as in training.

A model that was trained with another tokenization is rejected at export, rather than
giving wrong outputs on the phone.

MediaPipe's `BertTokenizer` lowercases ASCII letters only, strips no accents, deletes no
control characters, and replaces words of more than 100 bytes by `[UNK]`, where the
training tokenizer replaces words of more than 100 characters. MediaPipe's
`BertTokenizer` splits words at ASCII white space only. MediaPipe's
`SentencePieceTokenizer` uses the SentencePiece library, so only lowercasing differs.
Tests compare `MediaPipeReading` with MediaPipe itself.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.export_support import (
    CASED,
    PLAIN,
    check_mediapipe_task,
    unsuited_to_mediapipe,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.interface import SpecialIds, Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import CLS, CONTINUATION, SEP
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
    fast_wordpiece,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.text_ops.text_encoder import TextEncoder

# Maximum share of a vocabulary's words with a first letter whose upper case MediaPipe
# does not fold. There is one such word in BERT's English vocabulary, 1% in a German and
# 4% in a French one, but most of a Greek or Cyrillic one, where each sentence begins
# with such a letter.
_MOST_CASED = 0.1
_MAXIMUM_WORD_BYTES = 100
# Words of their own: punctuation and Chinese characters.
_ALONE = (
    r"[!-/:-@\[-`{-~\p{P}"
    r"\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2ceaf}"
    r"\x{f900}-\x{faff}\x{2f800}-\x{2fa1f}]"
)
_BETWEEN = rf"\s+|{_ALONE}"


def check_mediapipe(config: RunConfig, model: TokenizerModel) -> None:
    """Rejects a run if MediaPipe cannot run its model or would tokenize differently.

    Args:
        config: The run's configuration.
        model: The tokenizer's model.

    Raises:
        ConfigError: MediaPipe cannot run the model or would tokenize differently; the
            message contains the reason.
    """
    check_mediapipe_task(config)
    if model.framing.found_whole:
        problem = "has added tokens, which are found whole, and not by MediaPipe"
    elif isinstance(model, WordPieceModel):
        problem = _problem_of_wordpiece(model)
    elif isinstance(model, SentencePieceModel):
        problem = _problem_of_sentencepiece(model)
    else:
        problem = f"is of kind {model.kind}, which MediaPipe does not know"
    if problem:
        raise unsuited_to_mediapipe(config.tokenizer.kind, problem)


def check_examples(trained: TrainedRun, texts: Sequence[str]) -> None:
    """Rejects texts that MediaPipe would tokenize differently.

    Args:
        trained: Has the tokenizer.
        texts: Typical inputs, such as `export.examples`.

    Raises:
        ConfigError: MediaPipe would tokenize a text differently; the message contains
            the first such text.
    """
    for text, (theirs, ours) in read_differently(trained, texts).items():
        raise ConfigError(
            f"export.examples: MediaPipe reads {text!r} as {' '.join(theirs)}; "
            f"expected {' '.join(ours)}, as the model has learned it. MediaPipe folds "
            "upper case in ASCII alone and strips no accents: train with "
            "`tokenizer.strip_accents: false`, or export no MediaPipe file: "
            f"{PLAIN}"
        )


def advice(model: TokenizerModel) -> str | None:
    """Returns a warning about accents, or None.

    A vocabulary with stripped accents does not show whether the texts have accents.

    Example:
    >>> pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe")
    >>> print(advice(WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)))
    MediaPipe strips no accents, and the vocabulary has none: ...
    """
    if not isinstance(model, WordPieceModel) or not model.strip_accents:
        return None
    return (
        "MediaPipe strips no accents, and the vocabulary has none: a word such as "
        "'café' becomes [UNK] there. For languages with accents train with "
        "`tokenizer.strip_accents: false`"
    )


class MediaPipeReading:
    """Tokenizes as MediaPipe does, with the interface that a `TextEncoder` needs.

    Args:
        tokenizer: A WordPiece or SentencePiece tokenizer.

    Example:
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"]
    >>> reading = MediaPipeReading(WordPieceTokenizer(pieces))
    >>> reading.tokenize(tf.constant(["Unable!", "unáble"])).to_list()
    [[5, 6, 7], [1]]
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.special: SpecialIds = tokenizer.special
        self._wordpiece = None
        if isinstance(tokenizer, WordPieceTokenizer):
            pieces = tokenizer.vocabulary
            self._wordpiece = fast_wordpiece(pieces, _MAXIMUM_WORD_BYTES)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts (N,), UTF-8: int32 (N, None), without special tokens."""
        lower = tf.strings.lower(texts)  # A to Z alone
        if self._wordpiece is None:
            return self.tokenizer.tokenize(lower)
        words = tf_text.regex_split(lower, _BETWEEN, _ALONE)
        return self._wordpiece.tokenize(words).merge_dims(1, -1)


def read_differently(
    trained: TrainedRun, texts: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Returns texts that MediaPipe tokenizes differently, with both tokenizations."""
    if not texts:
        return {}
    reading: Any = MediaPipeReading(trained.tokenizer)
    length = trained.config.model.max_sequence_length
    found = []
    for tokenizer in (reading, trained.tokenizer):
        tokens = tokenizer.tokenize(tf.constant(list(texts)))
        encoded = TextEncoder(tokenizer, length).text(tokens)
        rows: Any = zip(encoded.token_ids.numpy(), encoded.lengths.numpy(), strict=True)
        found.append([row[:length].tolist() for row, length in rows])
    pieces = trained.tokenizer.pieces
    return {
        text: ([pieces[i] for i in theirs], [pieces[i] for i in ours])
        for text, theirs, ours in zip(texts, *found, strict=True)
        if theirs != ours
    }


def _problem_of_wordpiece(model: WordPieceModel) -> str | None:
    if not model.lowercase:
        return CASED
    words = [
        piece
        for piece in model.pieces
        if len(piece) > 1 and not piece.startswith((CONTINUATION, "["))
    ]
    cased = sum(not word[0].isascii() and word[0].upper() != word[0] for word in words)
    if cased > _MOST_CASED * len(words):
        return (
            f"has {cased:,} words of {len(words):,} that begin with a letter outside "
            "ASCII, whose upper case MediaPipe does not fold"
        )
    return None


def _problem_of_sentencepiece(model: SentencePieceModel) -> str | None:
    special, pieces = model.special, model.pieces
    framing = [None if i is None else pieces[i] for i in (special.begin, special.end)]
    if framing != [CLS, SEP]:
        named = " and ".join(piece or "nothing" for piece in framing)
        return f"frames texts with {named}, where MediaPipe puts {CLS} and {SEP}"
    text = "ABCDEFGHIJKLM NOPQRSTUVWXYZ"
    if model.processor.encode(text) != model.processor.encode(text.lower()):
        return CASED
    return None
