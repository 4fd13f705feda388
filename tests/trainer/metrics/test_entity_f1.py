import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.bio_tags import marks_entities
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.trainer.metrics.counts import ClassCounts
from transbeam.trainer.metrics.entity_f1 import TaggingScores

IOB = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IOBES = tuple(
    ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC-city") for prefix in "BIES")]
)


def sums_of(
    labels, predicted: list[str], asked: list[str], metric: TaggingScores | None = None
) -> np.ndarray:
    """Summed statistics of sentences such as "B-PER I-PER O"."""
    length = max(len(sentence.split()) for sentence in asked)
    rows = np.zeros((3, len(asked), length), int)
    for row, pair in enumerate(zip(predicted, asked, strict=True)):
        for which, sentence in enumerate(pair):
            tags = [labels.index(tag) for tag in sentence.split()]
            rows[which, row, : len(tags)] = tags
            rows[2, row, : len(tags)] = 1
    return (metric or TaggingScores(labels)).statistics(*rows).sum(axis=0)


def scores_of(labels, predicted: list[str], asked: list[str]) -> dict[str, float]:
    scores = TaggingScores(labels).scores(sums_of(labels, predicted, asked))
    return {name: score.item() for name, score in scores.items()}


def entities(tags: str) -> int:
    """Number of entities in a sentence."""
    return int(sums_of(IOBES, [tags], [tags])[-2:].sum())


def test_scores_by_hand():
    scores = scores_of(
        IOB,
        ["B-PER I-PER O B-LOC", "B-LOC O O", "O"],
        ["B-PER I-PER O B-LOC", "B-LOC I-LOC O", "B-PER"],
    )
    # 4 entities asked for, 3 predicted, 2 right: one ends too early.
    assert scores == pytest.approx(
        {
            "accuracy": 6 / 8,
            "entity_precision": 2 / 3,
            "entity_recall": 2 / 4,
            "entity_f1": 4 / 7,
        }
    )


@pytest.mark.parametrize(("strict", "expected"), [(False, 1), (True, 0)])
def test_entities_without_a_first_tag_by_hand(strict, expected):
    """IOB2 asks for a B; conlleval finds an entity at an I, too."""
    metric = TaggingScores(IOB, strict)
    predicted, asked = ["I-PER I-PER O I-LOC"], ["B-PER I-PER O B-LOC"]
    scores = metric.scores(sums_of(IOB, predicted, asked, metric))
    assert scores["entity_f1"] == expected


def test_scores_of_each_type_by_hand():
    sums = sums_of(
        IOB,
        ["B-PER I-PER O B-LOC", "B-LOC O O", "O"],
        ["B-PER I-PER O B-LOC", "B-LOC I-LOC O", "B-PER"],
    )
    table = ClassCounts.from_sums(sums[2:]).table(TaggingScores(IOB).types)
    assert list(table) == ["LOC", "PER"]
    assert table["LOC"] == (1 / 2, 1 / 2, 1 / 2, 2)
    assert table["PER"] == pytest.approx((1, 1 / 2, 2 / 3, 2))


@pytest.mark.parametrize(
    ("tags", "number"),
    [
        ("O O", 0),
        ("B-PER I-PER", 1),
        ("B-PER B-PER", 2),
        ("I-PER I-PER", 1),  # as in IOB1
        ("B-PER I-LOC-city", 2),
        ("B-PER O I-PER", 2),
        ("B-PER E-PER", 1),
        ("B-PER E-PER I-PER", 2),
        ("S-PER S-PER", 2),
        ("S-PER I-PER", 2),
        ("E-PER", 1),
    ],
)
def test_entities_are_read_from_any_tags(tags, number):
    assert entities(tags) == number


def test_entities_end_with_their_sentence():
    assert sums_of(IOB, ["B-PER", "I-PER"], ["B-PER", "I-PER"])[-1] == 2


def test_schemes_may_differ_if_the_entities_are_the_same():
    scores = scores_of(IOBES, ["S-PER B-PER E-PER"], ["B-PER B-PER I-PER"])
    assert scores["entity_f1"] == 1
    assert scores["accuracy"] == 1 / 3


def test_right_type_and_start_but_another_end_is_wrong():
    assert scores_of(IOB, ["B-PER I-PER"], ["B-PER O"])["entity_f1"] == 0


def test_same_place_but_another_type_is_wrong():
    assert scores_of(IOB, ["B-LOC I-LOC"], ["B-PER I-PER"])["entity_f1"] == 0


def test_tags_of_later_pieces_are_passed_over():
    # Ber ##lin Mitte, asked for at first pieces: B-LOC (O) I-LOC is one entity.
    metric = TaggingScores(IOB)
    statistics = metric.statistics([[0, 3, 0, 4]], [[0, 3, 1, 4]], [[0, 1, 0, 1]])
    np.testing.assert_array_equal(statistics, [[2, 2, 1, 0, 1, 0, 1, 0]])


@pytest.mark.parametrize("labels", [IOB, IOBES], ids=["IOB", "IOBES"])
@given(data=st.data())
def test_scores_are_those_of_seqeval(labels, data):
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    tag = st.sampled_from(labels)
    sentence = st.lists(st.tuples(tag, tag), min_size=1, max_size=8)
    drawn = data.draw(st.lists(sentence, min_size=1, max_size=5))
    predicted = [[pair[0] for pair in sentence] for sentence in drawn]
    asked = [[pair[1] for pair in sentence] for sentence in drawn]
    sums = sums_of(labels, list(map(" ".join, predicted)), list(map(" ".join, asked)))

    whole = seqeval.precision_recall_fscore_support(
        asked, predicted, average="micro", zero_division=0
    )
    scores = TaggingScores(labels).scores(sums)
    assert scores["accuracy"] == seqeval.accuracy_score(asked, predicted)
    found = [scores[f"entity_{name}"] for name in ("precision", "recall", "f1")]
    np.testing.assert_allclose(found, whole[:3], atol=1e-12)

    # By type it lists those that are met, in the order of their names.
    columns = seqeval.precision_recall_fscore_support(
        asked, predicted, average=None, zero_division=0
    )
    ours = ClassCounts.from_sums(sums[2:]).table(TaggingScores(labels).types)
    met = sums[2:].reshape(3, -1).sum(axis=0) > 0
    rows = [row for row, kept in zip(ours.values(), met, strict=True) if kept]
    np.testing.assert_allclose(
        np.reshape(rows, (-1, 4)), np.transpose(columns).reshape(-1, 4), atol=1e-12
    )


@pytest.mark.parametrize("labels", [IOB, IOBES], ids=["IOB2", "IOBES"])
@given(data=st.data())
def test_strict_scores_are_those_of_seqeval(labels, data):
    strict = pytest.importorskip("seqeval.metrics.v1")
    schemes = pytest.importorskip("seqeval.scheme")
    tag = st.sampled_from(labels)
    sentence = st.lists(st.tuples(tag, tag), min_size=1, max_size=8)
    drawn = data.draw(st.lists(sentence, min_size=1, max_size=5))
    predicted = [[pair[0] for pair in sentence] for sentence in drawn]
    asked = [[pair[1] for pair in sentence] for sentence in drawn]
    expected = strict.precision_recall_fscore_support(
        asked,
        predicted,
        average="micro",
        zero_division=0,
        scheme=schemes.IOB2 if labels is IOB else schemes.IOBES,
    )
    told = [list(map(" ".join, rows)) for rows in (predicted, asked)]
    metric = TaggingScores(labels, strict=True)
    scores = metric.scores(sums_of(labels, *told, metric=metric))
    found = [scores[f"entity_{name}"] for name in ("precision", "recall", "f1")]
    np.testing.assert_allclose(found, expected[:3], atol=1e-12)


@pytest.mark.parametrize(
    "written",
    [
        {"S": "U-{}", "B": "B-{}", "I": "I-{}", "E": "L-{}"},  # BILOU
        {"S": "S-{}", "B": "B-{}", "I": "M-{}", "E": "E-{}"},  # BMES
        {"S": "W_{}", "B": "B_{}", "I": "M_{}", "E": "E_{}"},  # BMEWO
        {"S": "S_{}", "B": "B_{}", "I": "I_{}", "E": "E_{}"},
        {"S": "{}-S", "B": "{}-B", "I": "{}-I", "E": "{}-E"},
        {"S": "{}_U", "B": "{}_B", "I": "{}_I", "E": "{}_L"},
    ],
    ids=["BILOU", "BMES", "BMEWO", "underscore", "suffix", "underscore_suffix"],
)
@given(st.lists(st.tuples(st.sampled_from(IOBES), st.sampled_from(IOBES)), min_size=1))
def test_other_schemes_mark_the_same_entities(written, pairs):
    def rewritten(tag: str) -> str:
        place, _, kind = tag.partition("-")
        return written[place].format(kind) if kind else tag

    labels = tuple(map(rewritten, IOBES))
    assert TaggingScores(labels).types == TaggingScores(IOBES).types
    rows = [" ".join(side) for side in zip(*pairs, strict=True)]
    other = [" ".join(map(rewritten, row.split())) for row in rows]
    expected = sums_of(IOBES, [rows[0]], [rows[1]])
    np.testing.assert_array_equal(sums_of(labels, [other[0]], [other[1]]), expected)


def test_tags_without_a_type():
    labels = ("B", "I", "O")
    assert TaggingScores(labels).types == ("",)
    assert scores_of(labels, ["B I O B"], ["B I O O"])["entity_precision"] == 1 / 2


@pytest.mark.parametrize(
    "labels",
    [
        ("NOUN", "VERB"),
        ("O",),
        ("O", "B2-PER"),
        ("", "O"),
        ("S", "M", "L"),
        ("B-PER", "PER-I", "O"),
    ],
)
def test_other_tags_are_refused(labels):
    assert not marks_entities(labels)
    with pytest.raises(ConfigError, match=r"objective.labels: found .*B-PER"):
        TaggingScores(labels)


def test_ids_without_a_tag_are_refused():
    with pytest.raises(DataError, match="targets: found label 5"):
        TaggingScores(IOB).statistics([[0]], [[5]])
