"""Predictions of the next tokens along a text, and the text that a model writes."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from transbeam.configs.schema.objectives.language_modeling import PrefixConfig
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import TARGET
from transbeam.serving.studio.answers import Answer, Outcomes, Prediction, softmax
from transbeam.serving.studio.next_tokens import Ids, NextTokens
from transbeam.serving.studio.studio_error import StudioError
from transbeam.serving.studio.token_rows import without_padding

# Along a text: each has the probability of every token of the vocabulary.
MOST_PREDICTIONS = 128
# New tokens of a continuation.
NEW_TOKENS = 16
# Characters before a next token that are shown.
_BEFORE = 48


def answer_tokens(
    trained: TrainedRun,
    task: Any,
    texts: Mapping[str, str],
    model: NextTokens,
    vocabulary: Outcomes,
) -> Answer:
    """Predicts the tokens of a text one by one, and continues it.

    An encoder-decoder predicts the decoder's text, and writes one from its start.

    Args:
        trained: The trained model.
        task: Its signatures; see `GenerationTask`.
        texts: A text for each of the run's inputs.
        model: The model that predicts: in Keras, or a file.
        vocabulary: The tokens by their ids.

    Raises:
        StudioError: The text is empty, or too long for the file.
    """
    is_seq2seq = trained.config.model.kind == "seq2seq"
    names = [str(spec.name) for spec in task.texts]
    if is_seq2seq:
        names.append(str(TARGET.name))
    read, _ = task.read_for_attention(
        *(tf.constant([texts[name]]) for name in names),
        longest=trained.config.model.max_sequence_length,
    )
    rows = {name: ids[0].tolist() for name, ids in without_padding(read).items()}
    source: Ids | None = rows.get("encoder_token_ids")
    row: Ids = rows["decoder_token_ids" if is_seq2seq else "token_ids"]
    if not row:
        raise StudioError("the text has no tokens, so there is nothing to continue")
    # Tokens of a prefix see those after them: only the last one predicts.
    is_prefix = isinstance(trained.config.objective, PrefixConfig)
    logits = model.along(row, source, 1 if is_prefix else MOST_PREDICTIONS)
    first = len(row) - len(logits)
    before = _texts_before(trained.tokenizer, row, first)
    start = row[:1] if is_seq2seq else row
    room = trained.config.model.max_sequence_length - len(start)
    ends = trained.tokenizer.special.ends
    new = model.write(start, source, min(NEW_TOKENS, room), ends)
    return Answer(
        kind="tokens",
        outcomes=vocabulary,
        predictions=[
            Prediction(
                number,
                _end(before[number - first]),
                softmax(scores),
                row[number + 1] if number + 1 < len(row) else None,
            )
            for number, scores in enumerate(logits, first)
        ],
        row=[*(source or []), *row],
        written=_written_text(trained.tokenizer, [] if is_seq2seq else row, new),
        left_out=0 if is_prefix else first,
    )


def _texts_before(tokenizer: Tokenizer, row: Ids, first: int) -> list[str]:
    """Returns the text up to each token of a row, from the token `first` on."""
    starts = [row[: number + 1] for number in range(first, len(row))]
    return [text.decode("utf-8", "replace") for text in _read(tokenizer, starts)]


def _end(text: str) -> str:
    return text if len(text) <= _BEFORE else f"…{text[-_BEFORE:]}"


def _written_text(tokenizer: Tokenizer, before: Ids, new: Ids) -> str:
    """Returns the text that new tokens add to that of the tokens before."""
    start, whole = _read(tokenizer, [before, [*before, *new]])
    return whole[len(start) :].decode("utf-8", "replace")


def _read(tokenizer: Tokenizer, rows: list[Ids]) -> list[bytes]:
    special = tokenizer.special
    silent = {special.pad, special.begin, *special.ends}
    shown = [[token for token in row if token not in silent] for row in rows]
    ragged: Any = tf.ragged.constant(shown, dtype=tf.int32, ragged_rank=1)
    return tokenizer.detokenize(ragged).numpy().tolist()
