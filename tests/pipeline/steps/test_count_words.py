"""A vocabulary is trained on the words that the tokenizer will split."""

from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.step_markers import DocumentPart, documents_path
from transbeam.pipeline.steps.count_words import count_part

DOCUMENTS = [
    Document("a cat", "x", 0, target_text="chat", label="good"),
    Document("a dog", "x", 1, target_text="chien", label="bad"),
    Document("no answer", "x", 2),
]


class Spaces:
    """Words are what stands between spaces."""

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return tf.strings.split(texts)


@pytest.mark.parametrize("weight", [1, 2])
@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Seq2SeqConfig(), "a cat a dog no answer chat chien"),
        (TextToTextConfig(source="say: {text}"), "say: a cat say: a dog chat chien"),
        (
            TextToTextConfig(source="{text}", target="is {label}"),
            "a cat a dog is good is bad",
        ),
    ],
)
def test_words_are_counted_as_often_as_they_will_be_seen(
    objective: Objective, words: str, weight: int, tmp_path: Path
) -> None:
    for name in ("state", "documents"):
        (tmp_path / name).mkdir()
    part = DocumentPart(0, 0, 1, weight=float(weight))
    DocumentBatch.from_documents(DOCUMENTS).save(documents_path(tmp_path, part))
    config = RunConfig(
        name="counted",
        data=DataConfig(source=TextSourceConfig(path="x"), validation_fraction=0.0),
        objective=objective,
    )
    counts = count_part(part, config, tmp_path, Spaces())
    assert counts == {word: n * weight for word, n in Counter(words.split()).items()}
    assert count_part(part, config, tmp_path, Spaces()) == counts
