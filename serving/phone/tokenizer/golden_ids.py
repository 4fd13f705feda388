"""Texts with their token ids, for a unit test of an app's tokenizer.

The ids are those of the tokenizer that made the model's training data. An app's unit
test passes the file to the method `disagreements` of the app's tokenizer.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame
from transbeam.serving.phone.tokenizer.golden_texts import MASKED, PAIRS, TEXTS
from transbeam.serving.text_ops.mask_tokens import tokenize_with_masks
from transbeam.serving.text_ops.prompts import (
    EncodedPrompt,
    as_utf8,
    beginnings,
    without_special,
)
from transbeam.serving.text_ops.text_encoder import Encoded, TextEncoder

FILE = "golden_ids.json"
_LENGTH = 24  # so short that some texts fit in and some are cut
_PROMPT = 8


class GoldenCase(NamedTuple):
    """A text or a pair of texts, and whether `[MASK]` in it is the mask token."""

    text: str
    second_text: str | None = None
    masks: bool = False


def golden_ids(tokenizer: Tokenizer, frame: TextFrame | None = None) -> dict[str, Any]:
    """Returns the content of the file of test cases.

    Args:
        tokenizer: A tokenizer of any kind.
        frame: The special tokens of texts; left out, those of an encoder.

    Returns:
        `length`, the number of tokens of a row; `prompt`, the maximum number of tokens
        of a prompt; and `cases`. Each case has the inputs `text`, `second_text` (or
        null) and `masks` (true if the text has mask tokens); and the expected `ids`,
        the text `decoded` from them, and the `prompt_ids` for a decoder. If `frame` is
        given or the vocabulary has start and end tokens, each case also has the
        expected row:
        `token_ids`, `padding_mask`, `segment_ids` and `truncated`.
    """
    plain = [GoldenCase(text) for text in TEXTS]
    plain += [GoldenCase(first, second) for first, second in PAIRS]
    cases = _cases(tokenizer, plain, frame)
    if tokenizer.special.mask is not None:
        cases += _cases(
            tokenizer, [GoldenCase(text, masks=True) for text in MASKED], frame
        )
    return {"length": _LENGTH, "prompt": _PROMPT, "cases": cases}


def _cases(
    tokenizer: Tokenizer, inputs: list[GoldenCase], frame: TextFrame | None
) -> list[dict[str, Any]]:
    """Returns test cases for texts that either all have or all lack mask tokens."""
    texts = tf.constant([each.text for each in inputs])
    masked = any(each.masks for each in inputs)
    tokens = (
        tokenize_with_masks(tokenizer, texts) if masked else tokenizer.tokenize(texts)
    )
    decoded = as_utf8(tokenizer.detokenize(without_special(tokens, tokenizer)))
    with_start = beginnings(tokens, tokenizer)
    most = tf.fill([len(inputs)], _PROMPT)
    prompts = EncodedPrompt.from_tokens(
        with_start, most, _PROMPT, tokenizer.special.pad
    ).tokens
    columns = [
        [each._asdict() for each in inputs],
        [{"ids": ids} for ids in tokens.to_list()],
        [{"decoded": text.decode()} for text in decoded.numpy()],
        [{"prompt_ids": ids} for ids in prompts.to_list()],
        _rows(tokenizer, [each.second_text for each in inputs], tokens, frame),
    ]
    return [
        {name: value for part in parts for name, value in part.items()}
        for parts in zip(*columns, strict=True)
    ]


def _rows(
    tokenizer: Tokenizer,
    seconds: list[str | None],
    tokens: tf.RaggedTensor,
    frame: TextFrame | None,
) -> list[dict[str, Any]]:
    special = tokenizer.special
    if frame is None and (special.begin is None or special.end is None):
        return [{} for _ in seconds]
    encoder = TextEncoder(tokenizer, _LENGTH, frame)
    alone = _as_lists(encoder.text(tokens))
    others = tokenizer.tokenize([second or "" for second in seconds])
    paired = _as_lists(encoder.pair(tokens, others))
    return [
        one if second is None else both
        for one, both, second in zip(alone, paired, seconds, strict=True)
    ]


def _as_lists(encoded: Encoded) -> list[dict[str, Any]]:
    """Converts encoded rows to lists; the longest has `_LENGTH` ids, so all rows do."""
    parts = {
        "token_ids": encoded.token_ids,
        "padding_mask": encoded.padding_mask,
        "segment_ids": encoded.segment_ids,
        "truncated": encoded.truncated,
    }
    columns = [part.numpy().tolist() for part in parts.values()]
    return [dict(zip(parts, row, strict=True)) for row in zip(*columns, strict=True)]
