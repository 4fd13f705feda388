"""The texts on which the exported forms must agree with Keras."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from pipeline.tokenizers.vocabulary import MASK
from serving.trained import Trained

VALIDATION_RECORDS = "data/records/validation-*.tfrecord"

# Lengths from nothing to far too long, and scripts the corpus may not have.
BUILT_IN = (
    "",
    MASK,
    f"The {MASK} is not a {MASK}.",
    "No mask at all, but a café, 漢字 and 👩‍👩‍👧‍👦.",
    f"{MASK} comes first, and the last is {MASK}",
    f"{MASK} " + "far too long " * 2000,
)


def gate_texts(trained: Trained, run_folder: Path, from_records: int = 24) -> list[str]:
    """The configuration's examples, some fixed texts, and masked validation documents.

    Args:
        trained: Its configuration and tokenizer.
        run_folder: Holds the validation records; without any the rest must do.
        from_records: At most this many validation documents.
    """
    documents = _masked_documents(trained, run_folder)
    found = [text for _, text in zip(range(from_records), documents, strict=False)]
    return [*trained.config.export.examples, *BUILT_IN, *found]


def _masked_documents(trained: Trained, run_folder: Path) -> Iterator[str]:
    """Documents of the validation records that have a `[MASK]`, as text."""
    tokenizer = trained.tokenizer
    files = sorted(map(str, run_folder.glob(VALIDATION_RECORDS)))
    for record in tf.data.TFRecordDataset(files):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        token_ids = np.array(features["token_ids"].int64_list.value, np.int32)
        document_ids = np.array(features["document_ids"].int64_list.value)
        for document in range(1, int(document_ids.max()) + 1):
            content = token_ids[document_ids == document][1:-1]
            if tokenizer.mask_id in content:
                ids = tf.ragged.constant([content.tolist()], dtype=tf.int32)
                yield tokenizer.detokenize(ids).numpy()[0].decode("utf-8")
