"""The texts on which exported models are compared with Keras."""

from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.export import example_texts
from transbeam.configs.schema.objectives.language_modeling import SpanCorruptionConfig
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.objectives.traits import input_names
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import MASK, sentinel_pieces
from transbeam.serving.base.run_records import documents
from transbeam.serving.base.trained_run import TrainedRun

# Lengths from empty to far too long, and scripts that the corpus may not have.
BUILT_IN = (
    "",
    MASK,
    f"The {MASK} is not a {MASK}.",
    "No mask at all, but a café, 漢字 and 👩‍👩‍👧‍👦.",
    f"{MASK} comes first, and the last is {MASK}",
    f"{MASK} " + "far too long " * 2000,
)
FROM_RECORDS = 24


def masked_texts(trained: TrainedRun, run_folder: Path) -> list[str]:
    """Returns `export.examples`, fixed texts, and masked validation documents.

    Args:
        trained: The trained model with its configuration and tokenizer.
        run_folder: The run's folder; its validation records may be missing.
    """
    tokenizer = trained.tokenizer
    found = (
        _text(tokenizer, ids)
        for ids, _ in documents(run_folder)
        if tokenizer.special.mask in ids
    )
    examples = trained.config.export.examples
    return [*examples, *BUILT_IN, *islice(found, FROM_RECORDS)]


def labelled_texts(trained: TrainedRun, run_folder: Path) -> list[tuple[str, ...]]:
    """Returns `export.examples`, fixed texts and validation texts, as tuples."""
    config, tokenizer = trained.config, trained.tokenizer
    examples = [example_texts(config.objective, e) for e in config.export.examples]
    if len(input_names(config.objective)) == 1:
        records = ((_text(tokenizer, ids),) for ids, _ in documents(run_folder))
        fixed = [(text,) for text in BUILT_IN]
        return [*examples, *fixed, *islice(records, FROM_RECORDS)]
    fixed = list(zip(BUILT_IN, reversed(BUILT_IN), strict=True))
    fixed.append((BUILT_IN[-1], BUILT_IN[-1]))
    pairs = (
        (_text(tokenizer, ids[segments == 0]), _text(tokenizer, ids[segments == 1], 0))
        for ids, segments in documents(run_folder)
    )
    if isinstance(config.objective, SpanQAConfig):  # its records begin with questions
        pairs = ((context, question) for question, context in pairs)
    return [*examples, *fixed, *islice(pairs, FROM_RECORDS)]


def written_texts(trained: TrainedRun, run_folder: Path) -> list[tuple[str, ...]]:
    """Returns prompts or source texts: `export.examples`, fixed texts and documents."""
    config, tokenizer = trained.config, trained.tokenizer
    examples = [example_texts(config.objective, e) for e in config.export.examples]
    if config.model.kind == "decoder":
        # The first halves of documents serve as prompts.
        found = (ids[: (len(ids) + 1) // 2] for ids, _ in documents(run_folder))
        ends = 0
    else:
        found = (ids for ids, _ in documents(run_folder, "encoder_"))
        ends = 1
    records = [_text(tokenizer, ids, 0, ends) for ids in islice(found, FROM_RECORDS)]
    fixed = list(BUILT_IN)
    if isinstance(config.objective, SpanCorruptionConfig):
        fixed = [_with_gaps(text) for text in BUILT_IN]
    texts = [*fixed, *records]
    if len(input_names(config.objective)) == 1:
        return [*examples, *((text,) for text in texts)]
    return [*examples, *zip(texts, reversed(texts), strict=True)]


def row_inputs(token_ids: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the inputs of an encoder for one text without padding."""
    return {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)}


def _with_gaps(text: str) -> str:
    """Replaces each `[MASK]` in a text by a sentinel such as `<extra_id_0>`."""
    for gap in sentinel_pieces(text.count(MASK)):
        text = text.replace(MASK, gap, 1)
    return text


def _text(tokenizer: Tokenizer, ids: np.ndarray, begin: int = 1, end: int = 1) -> str:
    """Detokenizes ids without the first `begin` and the last `end` ids."""
    content = tf.ragged.constant([ids[begin : len(ids) - end].tolist()], dtype=tf.int32)
    return tokenizer.detokenize(content).numpy()[0].decode("utf-8", "replace")
