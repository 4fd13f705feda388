"""The table of pieces that objectives need says what they ask for."""

from dataclasses import replace

import numpy as np
import pytest

from tests.objective_configs import MODELS
from tests.pipeline.objectives.language_tokenizer import WORDS, language_tokenizer
from tests.pipeline.objectives.word_tokenizer import run_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.objective_requirements import fields_needed, pieces_needed
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    Seq2SeqConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.objectives.traits import TRAITS
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.special_tokens import check_special
from transbeam.pipeline.objectives.kinds import make_records

LABELS = ("O", "B-x")
OBJECTIVES = [
    MaskedConfig(),
    SentencePairsConfig(),
    CausalConfig(),
    PrefixConfig(),
    SpanCorruptionConfig(),
    Seq2SeqConfig(),
    TextToTextConfig(source="{text}"),
    ClassificationConfig(labels=LABELS),
    RegressionConfig(),
    PairClassificationConfig(labels=LABELS),
    PairRegressionConfig(),
    TokenClassificationConfig(labels=LABELS),
    SpanQAConfig(max_question_length=8),
]
DOCUMENTS = [
    Document(
        text,
        "x",
        number,
        second_text="d e",
        target_text="f",
        label="O" if labelled else "1",
        words=tuple(text.replace(".", "").split()),
        tags=("O",) * len(text.replace(".", "").split()),
        answers=((0, "a"),),
    )
    for number, (text, labelled) in enumerate(
        [("a b c. d e f.", True), ("a h i. j k l. m n.", False)]
    )
]


CASES = [
    pytest.param(objective, kind, id=f"{objective.kind}-{kind}")
    for objective in OBJECTIVES
    for kind in TRAITS[objective.kind].models
]


@pytest.mark.parametrize(("objective", "model"), CASES)
def test_each_piece_of_the_table_and_no_other_is_needed(objective, model) -> None:
    run, batch = run_of(objective, 32), DocumentBatch.from_documents(DOCUMENTS)
    run = replace(run, model=MODELS[model]())
    make_records(batch, WORDS, run, "train")
    for piece in ("begin", "end", "mask"):
        tokenizer = language_tokenizer(" ".join("abcdefghijklmn"), **{piece: None})
        if piece in pieces_needed(run):
            with pytest.raises(ConfigError, match=f"kind={objective.kind} needs a pie"):
                make_records(batch, tokenizer, run, "train")
            with pytest.raises(ConfigError, match=f"kind={objective.kind} needs a pie"):
                check_special(tokenizer.special, run)
        else:
            make_records(batch, tokenizer, run, "train")
            check_special(tokenizer.special, run)


def test_sentinels_are_counted() -> None:
    run = run_of(SpanCorruptionConfig(), 32)
    count = run.objective.num_sentinels(32)
    batch = DocumentBatch.from_documents(DOCUMENTS)
    for there in (count - 1, count):
        tokenizer = language_tokenizer("a b c", sentinels=tuple(range(5, 5 + there)))
        if there < count:
            with pytest.raises(ConfigError, match=f"needs {count} sentinel pieces"):
                check_special(tokenizer.special, run)
            with pytest.raises(ConfigError, match=f"needs {count} sentinel pieces"):
                make_records(batch, tokenizer, run, "train")
        else:
            check_special(tokenizer.special, run)
            make_records(batch, tokenizer, run, "train")


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.kind)
def test_each_field_of_the_table_is_needed(objective) -> None:
    run = run_of(objective, 32)
    for field in fields_needed(objective):
        empty = "" if isinstance(getattr(DOCUMENTS[0], field), str) else ()
        without = [document._replace(**{field: empty}) for document in DOCUMENTS]
        records = make_records(
            DocumentBatch.from_documents(without), WORDS, run, "train"
        )
        unanswered = objective.kind == "span_qa" and field == "answers"
        assert len(records) == 0 or unanswered, field
        assert np.isfinite(records.lengths).all()
