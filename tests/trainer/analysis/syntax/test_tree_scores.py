"""Scores of trees: the worked example, punctuation, and trees without a model."""

import numpy as np
import pytest

from tests.model.inspect.test_attention_trees import GOLD, SAW
from transbeam.model.inspect.attention_trees import ROOT
from transbeam.trainer.analysis.syntax.tree_scores import (
    DirectedTreeCounts,
    TreeCounts,
    remove_punctuation,
    tabulate_trees,
)
from transbeam.trainer.analysis.syntax.treebank import TreebankSentence
from transbeam.trainer.analysis.syntax.word_texts import HeadName, WordMaps

HEADS = [HeadName("encoder_layer_0/self_attention", head) for head in range(2)]


def sentence(heads, tags):
    return TreebankSentence("", (), tuple(tags), np.array(heads), ("dep",) * len(tags))


def maps(*words):
    nothing = np.zeros((1, len(words), len(words[0])), int)
    return WordMaps(np.array([0]), np.array([words]), nothing, nothing)


# "She saw the old dog", and its map with a mark that all attend to most.
PLAIN = sentence(GOLD, ["NOUN"] * 5)
ENDED = sentence([*GOLD, 1], ["NOUN"] * 5 + ["PUNCT"])
WITH_MARK = np.pad(SAW, ((0, 1), (0, 1)), constant_values=0.9)


@pytest.mark.parametrize("bank", [PLAIN, ENDED], ids=["plain", "punctuation"])
def test_undirected_trees_by_hand(bank):
    counts = TreeCounts([bank])
    counts.add(maps(WITH_MARK, WITH_MARK.T))  # padded, if there is no mark
    first, second = counts.scores(HEADS, seed=0)
    assert (first.name, first.measure, first.edges) == (HEADS[0], "UUAS", 4)
    assert first.score.score == second.score.score == 0.75


@pytest.mark.parametrize("bank", [PLAIN, ENDED], ids=["plain", "punctuation"])
def test_directed_trees_by_hand(bank):
    """The transposed map has the direction from heads to words."""
    counts = DirectedTreeCounts([bank], [1])
    counts.add(maps(np.zeros_like(WITH_MARK), WITH_MARK.T))
    to, by = counts.scores(HEADS, seed=0)
    assert {to.name, by.name} == {HEADS[1]}
    assert (to.direction, by.direction, by.measure) == ("to", "by", "UAS")
    assert by.score.score == 0.75


def test_trees_without_a_model_by_hand():
    scores = {s.name: s for s in TreeCounts([PLAIN]).baselines(seed=0)}
    assert {name: s.score.score for name, s in scores.items()} == {
        "chain": 0.5,  # 1-2 and 4-5
        "right-branching": 0.0,
        "left-branching": 0.5,  # she → saw, old → dog
        "chain from the root": 0.25,  # she → saw
    }
    assert scores["chain"].measure == "UUAS"


def test_edges_are_summed_over_sentences():
    """A mean of the two sentences' shares would be .75."""
    counts = TreeCounts([PLAIN, sentence([1, ROOT], ["NOUN"] * 2)])
    (chain, *_) = counts.baselines(seed=0)
    assert (chain.score.score, chain.edges) == (3 / 5, 5)


def test_words_below_punctuation():
    tree = remove_punctuation(
        sentence([ROOT, 0, 1, 2], ["VERB", "PUNCT", "NOUN", "NOUN"])
    )
    assert tree is not None
    assert tree.words.tolist() == [0, 2, 3]
    assert tree.heads.tolist() == [ROOT, ROOT, 1]
    assert tree.root == 0


@pytest.mark.parametrize(
    ("heads", "tags"),
    [
        ([ROOT], ["VERB"]),
        ([ROOT, 0], ["VERB", "PUNCT"]),
        ([1, ROOT], ["NOUN", "PUNCT"]),
    ],
)
def test_sentences_without_edges(heads, tags):
    assert remove_punctuation(sentence(heads, tags)) is None


def test_table():
    counts = TreeCounts([PLAIN])
    counts.add(maps(SAW, SAW))
    scores = [*counts.scores(HEADS, seed=0), *counts.baselines(seed=0)]
    rows = tabulate_trees(scores).to_pylist()
    assert [(row["tree"], row["head"]) for row in rows] == [
        ("attention", 0),
        ("attention", 1),
        ("chain", None),
        ("right-branching", None),
        ("left-branching", None),
        ("chain from the root", None),
    ]
