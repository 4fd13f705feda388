"""Models that MediaPipe cannot run, or would tokenize differently, are refused."""

from dataclasses import replace

import pytest

from tests.serving.conftest import TINY as MASKED
from tests.serving.phone.sample_models import LABELS, model_of, unigram, wordpiece
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.export import ExportConfig
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import (
    ALPHABET,
    END_OF_TEXT,
)
from transbeam.serving.phone.mediapipe_tasks.mediapipe_check import (
    advice,
    check_mediapipe,
    read_differently,
)
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import write_mediapipe

TINY = replace(MASKED, export=ExportConfig())
CLASSIFIER = replace(TINY, objective=ClassificationConfig(labels=LABELS))


def test_what_is_taken():
    for config in (CLASSIFIER, TINY):
        for model in (wordpiece(), wordpiece(strip_accents=True), unigram()):
            check_mediapipe(config, model)


@pytest.mark.parametrize(
    "objective",
    [
        PairClassificationConfig(labels=LABELS),
        SentencePairsConfig(),
        RegressionConfig(),
        TokenClassificationConfig(labels=("O", "B-PER", "I-PER")),
        SpanQAConfig(max_question_length=8),
    ],
)
def test_a_task_without_a_client(objective):
    message = (
        rf"objective\.kind={objective.kind}: .*no client.*TextClassifier, for "
        r"objective\.kind=classification, and TextEmbedder, for masked and "
        r"contrastive_pairs\. .*plain TFLite"
    )
    with pytest.raises(ConfigError, match=message):
        check_mediapipe(replace(TINY, objective=objective), wordpiece())


@pytest.mark.parametrize("label", ["a\nb", "a\r\nb", "a\r"])
def test_a_label_of_two_lines(label):
    config = replace(TINY, objective=ClassificationConfig(labels=("ok", label)))
    with pytest.raises(ConfigError, match=r"objective\.labels: .*more than one line"):
        check_mediapipe(config, wordpiece())


def byte_bpe():
    return ByteBPEModel(pieces=(*ALPHABET, END_OF_TEXT), merges=())


def of_another_script():
    model = wordpiece()
    return replace(model, pieces=(*model.pieces, "привет", "мир", "фильм", "это"))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: wordpiece(lowercase=False), "distinguishes upper and lower case"),
        (
            of_another_script,
            r"has 5 words of 39 that begin with a letter outside ",
        ),
        (
            lambda: unigram(normalization="nmt_nfkc"),
            "distinguishes upper and lower case",
        ),
        (
            lambda: unigram(specials="t5"),
            r"frames texts with nothing and </s>, where MediaPipe puts \[CLS\]",
        ),
        (byte_bpe, "is of kind byte_bpe, which MediaPipe does not know"),
    ],
)
def test_a_tokenizer_that_mediapipe_has_not(make, found):
    message = (
        rf"tokenizer\.kind=wordpiece: the vocabulary {found}.*; expected a WordPiece "
        r"vocabulary with `lowercase: true`.*albert.*Train with one of these"
    )
    with pytest.raises(ConfigError, match=message):
        check_mediapipe(TINY, make())


def test_an_example_that_is_read_otherwise(tmp_path):
    """Accents are stripped by this vocabulary, and not by MediaPipe."""
    model = wordpiece(strip_accents=True)
    trained = model_of("classifier_small", model, tmp_path / "data/tokenizer")
    export = replace(trained.config.export, examples=("the film", "Café out"))
    trained = replace(trained, config=replace(trained.config, export=export))
    message = (
        r"export\.examples: MediaPipe reads 'Café out' as \[CLS\] café out \[SEP\]; "
        r"expected \[CLS\] c ##a ##f ##e out \[SEP\].*`tokenizer.strip_accents: false`"
    )
    with pytest.raises(ConfigError, match=message):
        write_mediapipe(trained, tmp_path, tmp_path / "phone")
    assert not (tmp_path / "phone").exists()


def test_only_what_is_read_otherwise_is_named(tmp_path):
    trained = model_of("classifier_small", wordpiece(), tmp_path)
    texts = ["The FILM!", "café", "École", "a\u00a0b", "out " * 90 + "École"]
    found = read_differently(trained, texts)
    assert list(found) == ["École", "a\u00a0b"]  # of the last, that part is cut off
    assert found["École"] == (["[CLS]", "[UNK]", "[SEP]"], ["[CLS]", "école", "[SEP]"])
    assert read_differently(trained, []) == {}
    assert read_differently(trained, ["", " ", "\t\n"]) == {}  # nothing is nothing


def test_who_strips_accents_is_told_what_that_means():
    assert "`tokenizer.strip_accents: false`" in advice(wordpiece(strip_accents=True))
    assert advice(wordpiece()) is None
    assert advice(unigram()) is None
