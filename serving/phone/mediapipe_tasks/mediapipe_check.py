"""Checks that MediaPipe can run a model and tokenizes texts as in training.

See `transbeam.serving.phone.mediapipe_tasks.mediapipe_tokenizer` for its tokenizers.
A model that was trained with another tokenization is rejected here, rather than giving
wrong outputs on the phone.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.export_support import (
    CASED,
    PLAIN,
    check_mediapipe_task,
    unsuited_to_mediapipe,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.tokenizers.base.vocabulary import CLS, CONTINUATION, SEP
from transbeam.pipeline.tokenizers.files.tokenizer_folder import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.phone.mediapipe_tasks.mediapipe_tokenizer import MediaPipeReading
from transbeam.serving.text_ops.text_encoder import TextEncoder

# Maximum share of a vocabulary's words with a first letter whose upper case MediaPipe
# does not fold. There is one such word in BERT's English vocabulary, 1% in a German and
# 4% in a French one, but most of a Greek or Cyrillic one, where each sentence begins
# with such a letter.
_MOST_CASED = 0.1


def check_mediapipe(config: RunConfig, model: TokenizerModel) -> None:
    """Rejects a run whose model MediaPipe cannot run, or would tokenize differently.

    Args:
        config: The run's configuration.
        model: The tokenizer's model.

    Raises:
        ConfigError: The message contains the reason.
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
        ConfigError: The message contains the first such text.
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

    A vocabulary whose accents are stripped does not show whether texts have accents.

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


def read_differently(
    trained: TrainedRun, texts: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Returns texts that MediaPipe tokenizes differently, with its pieces and ours."""
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
