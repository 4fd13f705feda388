"""The part `pairs`: numbers by hand, planted classes, and pairs that are none."""

import numpy as np
import pytest

from tests.model.conftest import small_config
from tests.trainer.analysis.flow.contexts import TOKENIZER, small_context
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.model import DecoderConfig
from transbeam.model.encoder import build_encoder
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts
from transbeam.trainer.analysis.flow.pair_reading import read_pair_file, read_pair_rows
from transbeam.trainer.analysis.flow.pairs import analyze_pairs

CONFIG = small_config(max_sequence_length=20)
BEGIN, END = TOKENIZER.special.begin, TOKENIZER.special.end
A = TOKENIZER.pieces.index("a")


def pair(first: int, second: int, **label) -> dict[str, np.ndarray]:
    ids = [BEGIN, *[A] * first, END, *[A + 1] * second, END]
    segments = np.repeat([0, 1], [first + 2, second + 1])
    return {
        "token_ids": np.array(ids, np.int32),
        "segment_ids": segments.astype(np.int32),
        **{name: np.array(value) for name, value in label.items()},
    }


@pytest.fixture
def uniform():
    """A model that attends to all tokens alike."""
    model = build_encoder(CONFIG, TOKENIZER.vocabulary_size)
    for weight in model.weights:
        if "/query/" in weight.path or "/key/" in weight.path:
            weight.assign(np.zeros(weight.shape))
    return model


@pytest.fixture
def write(tmp_path):
    def write_file(content: str, name: str = "pairs.tsv"):
        path = tmp_path / name
        path.write_text(content, "utf-8")
        return path

    return write_file


def test_uniform_attention_by_hand(uniform):
    """Special tokens are counted in the weights' sum of 1, and in neither text."""
    rows = (pair(2, 3), pair(1, 1))
    part = analyze_pairs(small_context(uniform, CONFIG, rows))
    table = part.tables["attention"].to_pylist()
    assert len(table) == 2 * 2 * 2  # layers, heads, measures
    for x in table:
        total = (6 / 8 + 1 / 5) / 2
        expected = total if x["measure"] == "total" else (1 / 8 + 1 / 5) / 2
        assert x["mean"] == pytest.approx(expected, rel=1e-5)
    assert part.notes == ("the records have no labels",)
    assert "areas" not in part.tables
    assert part.numbers["pairs"] == 2


def test_planted_classes(uniform):
    """Pairs of the class 1 have longer texts, so that uniform attention differs."""
    rows = tuple(pair(2 + 3 * (n % 2), 2, label=n % 2) for n in range(60))
    part = analyze_pairs(small_context(uniform, CONFIG, rows, ("other", "same")))
    assert part.numbers["positive_class"] == "same"
    areas = part.tables["areas"].to_pylist()
    assert {x["area"] for x in areas if x["measure"] == "total"} == {1.0}
    assert {x["area"] for x in areas if x["measure"] == "normalized"} == {0.0}
    assert part.numbers["area_by_length"] == {"area": 1.0, "low": 1.0, "high": 1.0}
    assert all(x["area"] in (0, 1) for x in part.numbers["best_heads"])
    part.figures["heads"].canvas.draw()


def test_classes_without_a_difference(uniform):
    """Chance: the interval of heads that were chosen for their area contains 0.5."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 8, (80, 2))
    labels = generator.integers(0, 2, 80)
    rows = tuple(
        pair(*size, next_sentence_label=label)
        for size, label in zip(sizes.tolist(), labels.tolist(), strict=True)
    )
    part = analyze_pairs(small_context(uniform, CONFIG, rows))
    assert part.numbers["positive_class"] == "next_sentence_label 1"
    for x in part.numbers["best_heads"]:
        assert x["low"] < 0.5 < x["high"]


@pytest.mark.parametrize("label", [2, 0.3])
def test_labels_of_more_than_two_classes(label):
    texts = AnalyzedTexts("validation", (pair(1, 1, label=0), pair(1, 1, label=label)))
    pairs = read_pair_rows(texts, ())
    assert pairs.labels is None
    assert "not of two classes" in pairs.note


def test_few_pairs_have_no_areas(uniform):
    rows = tuple(pair(2, 2, label=n % 2) for n in range(10))
    part = analyze_pairs(small_context(uniform, CONFIG, rows, ("no", "yes")))
    assert "areas" not in part.tables
    assert "5 of 10 pairs are of the class yes" in part.notes[0]


@pytest.mark.parametrize(
    "segments", [np.zeros(6, np.int32), None], ids=["one segment", "no segments"]
)
def test_pairs_with_one_text(uniform, segments):
    row = pair(2, 1)
    row.pop("segment_ids")
    if segments is not None:
        row["segment_ids"] = segments
    with pytest.raises(DataError, match=r"text 1: has one text only.*--pairs FILE"):
        analyze_pairs(small_context(uniform, CONFIG, (pair(1, 1), row)))


def test_a_file(write, uniform):
    lines = ["id\tlabel\ttext\tsecond_text"]
    lines += [f'{n}\t{n % 2}\ta "b\tc{" d" * (n % 2)}' for n in range(40)]
    context = small_context(uniform, CONFIG, (pair(1, 1),))
    part = analyze_pairs(context, pairs_file=write("\n".join(lines)))
    assert part.numbers["source"] == "pairs.tsv"
    assert part.numbers["pairs"] == 40
    assert part.numbers["positive_class"] == "1"
    assert {x["area"] for x in part.tables["areas"].to_pylist()} == {0.0, 1.0}


def test_rows_of_a_file_are_those_of_records(write):
    path = write('text,second_text,label\n"a a","b, b b",no\na,b,yes\n', "pairs.csv")
    found = read_pair_file(path, CONFIG, TOKENIZER, 10)
    unknown = TOKENIZER.special.unknown
    b = A + 1
    assert [row["token_ids"].tolist() for row in found.texts.rows] == [
        [BEGIN, A, A, END, b, unknown, b, b, END],
        [BEGIN, A, END, b, END],
    ]
    assert found.texts.rows[0]["segment_ids"].tolist() == [0] * 4 + [1] * 5
    assert found.labels is not None
    assert found.labels.tolist() == [False, True]
    assert found.positive == "yes"


def test_long_pairs_are_truncated_and_counted(write):
    path = write("text\tsecond_text\tlabel\n" + "a " * 30 + "\tb b\t0\na\tb\t1\n")
    found = read_pair_file(path, CONFIG, TOKENIZER, 10)
    assert [len(row["token_ids"]) for row in found.texts.rows] == [20, 5]
    assert int(found.texts.rows[0]["segment_ids"].sum()) == 3
    assert found.note == "1 pairs are longer than the model and were truncated"


def test_most_pairs(write):
    path = write("text\tsecond_text\na\tb\nc\td\ne\tf\n")
    assert len(read_pair_file(path, CONFIG, TOKENIZER, 2).texts) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no column text; its first line has nothing"),
        ("text\tlabel\na\t1\n", "no column second_text"),
        ("text\tsecond_text\n", "has no pair"),
        ("text\tsecond_text\na\n", "line 2: has 1 fields, and the header 2"),
        ("text\tsecond_text\na\t \n", "line 2: second_text is empty"),
        ("text\tsecond_text\tlabel\na\tb\t\n", "label is empty"),
        ("text\tsecond_text\tlabel\na\tb\t1\n", "has 1 different values"),
        (
            "text\tsecond_text\tlabel\na\tb\tx\na\tb\ty\na\tb\tz\n",
            "3 different values .'x', 'y', 'z'.; expected two",
        ),
    ],
)
def test_files_that_are_no_pairs(write, content, message):
    with pytest.raises(DataError, match=message):
        read_pair_file(write(content), CONFIG, TOKENIZER, 10)


def test_hostile_files(tmp_path, write):
    path = tmp_path / "bytes.tsv"
    path.write_bytes(b"text\tsecond_text\n\xff\xfe\tb\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_pair_file(path, CONFIG, TOKENIZER, 10)
    with pytest.raises(DataError, match="cannot be read"):
        read_pair_file(tmp_path / "none.tsv", CONFIG, TOKENIZER, 10)
    quotes = write('text,second_text\n"a"x,b\n', "quotes.csv")
    with pytest.raises(DataError, match=r"line 2.*quotes"):
        read_pair_file(quotes, CONFIG, TOKENIZER, 10)


def test_a_decoder_reads_no_pairs(write):
    with pytest.raises(ConfigError, match="read by a text encoder"):
        read_pair_file(write(""), DecoderConfig(), TOKENIZER, 10)
