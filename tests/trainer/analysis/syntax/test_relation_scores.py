"""Scores of relations: counts by hand, the best offset, and what is not counted."""

import numpy as np
import pytest

from transbeam.model.inspect.attention_trees import ROOT
from transbeam.trainer.analysis.syntax.relation_scores import (
    ALL,
    OFFSETS,
    RelationCounts,
    choose_best,
    tabulate_relations,
)
from transbeam.trainer.analysis.syntax.treebank import TreebankSentence
from transbeam.trainer.analysis.syntax.word_texts import HeadName, WordMaps

HEADS = [HeadName("encoder_layer_0/self_attention", head) for head in range(2)]


def sentence(heads, relations):
    size = len(heads)
    return TreebankSentence(
        text=" ".join("w" * size),
        offsets=tuple((2 * word, 2 * word + 1) for word in range(size)),
        tags=("NOUN",) * size,
        heads=np.array(heads),
        relations=tuple(relations),
    )


def maps(index, to, by):
    """Maps of heads that attend to, and are attended to by, given words."""
    to, by = np.array(to), np.array(by)
    return WordMaps(np.array(index), np.zeros((*to.shape, to.shape[-1])), to, by)


# "She saw the dog", and the same without "the".
SENTENCES = [
    sentence([1, ROOT, 3, 1], ["nsubj", "root", "det", "obj"]),
    sentence([1, ROOT, 1], ["nsubj", "root", "obj"]),
]
WHOLE = [np.eye(4, dtype=bool), np.eye(3, dtype=bool)]


def scored(memberships=WHOLE, fewest=1):
    counts = RelationCounts(SENTENCES, memberships)
    # In another order than the sentences, padded to four words with -1.
    counts.add(maps([1], [[[1, 0, 1, -1], [2, 2, 0, -1]]], [[[1, 0, 0, -1]] * 2]))
    counts.add(maps([0], [[[1, 2, 3, 1], [2, 0, 3, 0]]], [[[1, 0, 1, 1]] * 2]))
    scores = counts.scores(HEADS, fewest, seed=0)
    return {(s.relation, s.name.head, s.direction): s for s in scores}


def test_accuracies_by_hand():
    found = scored()
    accuracy = {key: score.accuracy.score for key, score in found.items()}
    assert accuracy == {
        ("nsubj", 0, "to"): 1.0,
        ("nsubj", 0, "by"): 1.0,
        ("nsubj", 1, "to"): 0.0,
        ("nsubj", 1, "by"): 1.0,
        ("det", 0, "to"): 1.0,
        ("det", 0, "by"): 0.0,
        ("det", 1, "to"): 1.0,
        ("det", 1, "by"): 0.0,
        ("obj", 0, "to"): 1.0,
        ("obj", 0, "by"): 0.5,
        ("obj", 1, "to"): 0.0,
        ("obj", 1, "by"): 0.5,
        (ALL, 0, "to"): 1.0,
        (ALL, 0, "by"): 0.6,
        (ALL, 1, "to"): 0.2,
        (ALL, 1, "by"): 0.6,
    }
    assert {found[key].words for key in found if key[0] == "obj"} == {2}


def test_the_best_offset_is_the_baseline():
    found = scored()
    best = {r: found[r, 0, "to"] for r in ("nsubj", "det", "obj", ALL)}
    assert best["nsubj"].offset == best["det"].offset == 1
    assert best["nsubj"].baseline.score == 1.0
    # The object is two words after the verb in one sentence, one in the other; three
    # of five words precede their head.
    assert best["obj"].baseline.score == 0.5
    assert (best[ALL].offset, best[ALL].baseline.score) == (1, 0.6)


def test_offsets_are_clamped():
    """The last word is the head of every word, at whatever offset beyond the end."""
    bank = [sentence([3, 3, 3, ROOT], ["dep", "dep", "dep", "root"])]
    counts = RelationCounts(bank, [np.eye(4, dtype=bool)])
    counts.add(maps([0], [[[0, 0, 0, 0]]], [[[0, 0, 0, 0]]]))
    (score, *_) = counts.scores(HEADS[:1], 1, seed=0)
    assert score.offset == 3
    assert score.baseline.score == 1.0
    assert 0 not in OFFSETS


def test_gain_and_found():
    score = scored()["obj", 0, "to"]
    assert score.gain == 0.5
    assert not score.is_found  # two words: the baseline's interval reaches 1
    assert not scored()["nsubj", 1, "to"].is_found


def test_punctuation_is_not_in_all():
    bank = [sentence([1, ROOT, 1], ["punct", "root", "obj"])]
    counts = RelationCounts(bank, WHOLE[1:])
    counts.add(maps([0], [[[0, 0, 1]]], [[[0, 0, 1]]]))
    words = {s.relation: s.words for s in counts.scores(HEADS[:1], 1, seed=0)}
    assert words == {ALL: 1, "punct": 1, "obj": 1}


@pytest.mark.parametrize("membership", ["none", "of its head", "shared"])
def test_words_that_are_not_counted(membership):
    tokens = np.eye(4, dtype=bool)
    if membership == "none":
        tokens[2, 2] = False
    elif membership == "of its head":
        tokens[3, 3] = False
    else:
        tokens[2, 3] = True  # a token of both words
    found = scored([tokens, WHOLE[1]])
    assert ("det", 0, "to") not in found
    assert found["nsubj", 0, "to"].words == 2
    assert found["obj", 0, "to"].words == (1 if membership == "of its head" else 2)


def test_rare_relations_are_left_out():
    assert {key[0] for key in scored(fewest=2)} == {"nsubj", "obj", ALL}
    assert not scored(fewest=6)


def test_best_heads_and_table():
    best = choose_best(list(scored().values()))
    assert [(s.relation, s.name.head, s.direction) for s in best] == [
        (ALL, 0, "to"),
        ("det", 0, "to"),
        ("nsubj", 0, "to"),
        ("obj", 0, "to"),
    ]
    row = tabulate_relations(best).to_pylist()[3]
    low, high = row.pop("low"), row.pop("high")
    assert low <= 1 <= high
    assert row.pop("baseline_low") <= 0.5 <= row.pop("baseline_high")
    assert row == {
        "layer": "encoder_layer_0/self_attention",
        "head": 0,
        "direction": "to",
        "relation": "obj",
        "accuracy": 1.0,
        "baseline": 0.5,
        "baseline_offset": -2,
        "words": 2,
    }
