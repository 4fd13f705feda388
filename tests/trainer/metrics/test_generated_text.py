import logging
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.configs.base.errors import ConfigError
from transbeam.trainer.metrics.generated_text import BLEU, ChrF, Rouge, WordF1

PREDICTIONS = ["A dog runs on the beach.", "Two men, talking!", "", "Ein Haus"]
TARGETS = ["A dog runs along the beach.", "two men are talking!", "A cat.", "Ein Haus"]

WORDS = st.sampled_from(["A", "dog", ".", "the", "Dog", "runs,", "on"])
SENTENCE = st.lists(WORDS, max_size=9)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=6)


def score_of(metric, predictions: list[str], targets: list[str]) -> dict[str, float]:
    sums = metric.statistics(predictions, targets).sum(axis=0)
    return {name: score.item() for name, score in metric.scores(sums).items()}


def joined(pairs, between: str = " ") -> tuple[list[str], list[str]]:
    predictions, targets = zip(*pairs, strict=True)
    return [between.join(p) for p in predictions], [between.join(t) for t in targets]


def rouge(*scores: float):
    """The expected scores, of ROUGE-1, -2, -L and -Lsum."""
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    return pytest.approx(dict(zip(names, scores, strict=True)))


def test_bleu_by_hand():
    # Right of all n-grams: 6 of 7, 4 of 6, 2 of 5, 0 of 4, which counts as half a one.
    expected = 100 * (6 / 7 * 4 / 6 * 2 / 5 * 0.5 / 4) ** (1 / 4)
    found = score_of(BLEU(), PREDICTIONS[:1], TARGETS[:1])
    assert found == {"bleu": pytest.approx(expected, rel=1e-12)}


def test_too_short_a_text_pays():
    predictions, targets = ["a b c d"], ["a b c d e f"]
    expected = 100 * np.exp(1 - 6 / 4)
    found = score_of(BLEU("none"), predictions, targets)
    assert found["bleu"] == pytest.approx(expected, rel=1e-12)


def test_chrf_by_hand():
    # "ablackdog" in "theblackdogs": they share 8 letters at one stretch.
    precision = np.mean([8 / 9, 7 / 8, 6 / 7, 5 / 6, 4 / 5, 3 / 4])
    recall = np.mean([8 / 12, 7 / 11, 6 / 10, 5 / 9, 4 / 8, 3 / 7])
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    found = score_of(ChrF(), ["a black dog"], ["the black dogs"])
    assert found == {"chrf": pytest.approx(expected, rel=1e-12)}


def test_rouge_by_hand():
    # the police (killed | kill) the gunman: 3 of 4 words, 1 of 3 pairs of words.
    found = score_of(
        Rouge(stem=False), ["police kill the gunman"], ["police killed the gunman"]
    )
    assert found == rouge(3 / 4, 1 / 3, 3 / 4, 3 / 4)
    order = score_of(
        Rouge(), ["the gunman police killed"], ["police killed the gunman"]
    )
    assert order == rouge(1, 2 / 3, 1 / 2, 1 / 2)


def test_the_order_of_sentences_does_not_count_in_rouge_lsum():
    found = score_of(
        Rouge(stem=False), ["the dog ran\nthe cat sat"], ["the cat sat\nthe dog ran"]
    )
    assert found == rouge(1, 4 / 5, 1 / 2, 1)


def test_of_several_references_the_best_counts_for_each_score():
    # The first shares 2 of 3 words and no pair, the second 2 of 4 and one pair.
    found = score_of(
        Rouge(stem=False), ["cat the sat"], [["the cat ran", "a cat the dog"]]
    )
    # ROUGE-1: 2/3 of the first. ROUGE-2: "cat the" of the second, 2 * 1 / (2 + 3).
    # ROUGE-L: "cat the" of the second, 2 * 2 / (3 + 4).
    assert found == rouge(2 / 3, 2 / 5, 4 / 7, 4 / 7)
    golds = [["Elbe", "the river Spree"], "Ein Haus"]
    assert score_of(WordF1(), ["Spree", "ein Haus"], golds) == {"f1": (2 / 3 + 1) / 2}


def test_n_grams_of_several_references():
    # "a b" of the first and "c d" of the second: 4 words, 2 pairs; the nearer length.
    statistics = BLEU("none").statistics(
        ["a b c d", "x"], [["a b y y", "z c d z z"], ["x"]]
    )
    np.testing.assert_array_equal(
        statistics,
        [[4, 4, 4, 2, 0, 0, 4, 3, 2, 1], [1, 1, 1, 0, 0, 0, 1, 0, 0, 0]],
    )
    alone = BLEU().statistics(PREDICTIONS, TARGETS)
    listed = BLEU().statistics(PREDICTIONS, [[target] for target in TARGETS])
    np.testing.assert_array_equal(alone, listed)


def test_rouge_with_stems():
    found = score_of(Rouge(), ["police kill the gunman"], ["police killed the gunman"])
    assert set(found.values()) == {1}


@pytest.mark.parametrize(
    "ours",
    [BLEU(), BLEU(lowercase=True), BLEU("none", lowercase=True), ChrF()],
    ids=lambda metric: f"{metric}",
)
@given(PAIRS)
def test_sums_score_as_the_library_scores_the_corpus(ours, pairs):
    from sacrebleu.metrics import BLEU as LibraryBLEU
    from sacrebleu.metrics import CHRF

    predictions, targets = joined(pairs)
    library = (
        CHRF()
        if isinstance(ours, ChrF)
        else LibraryBLEU(lowercase=ours.lowercase, tokenize=ours.tokenize)
    )
    expected = library.corpus_score(predictions, [targets]).score
    assert [*score_of(ours, predictions, targets).values()] == [expected]
    assert ours.signature == str(library.get_signature())


@given(PAIRS, st.sampled_from([" ", "\n"]))
def test_rouge_is_the_mean_of_what_the_library_says(pairs, between):
    from rouge_score.rouge_scorer import RougeScorer

    predictions, targets = joined(pairs, between)
    kinds = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(kinds, use_stemmer=True)
    each = [scorer.score(t, p) for p, t in zip(predictions, targets, strict=True)]
    expected = {kind: np.mean([s[kind].fmeasure for s in each]) for kind in kinds}
    assert score_of(Rouge(), predictions, targets) == pytest.approx(expected, abs=1e-12)


def test_case_matters_unless_said_otherwise():
    predictions, targets = ["a dog runs on the beach ."], ["A dog runs on the beach ."]
    assert score_of(BLEU("none"), predictions, targets)["bleu"] < 100
    lowered = BLEU("none", lowercase=True)
    assert score_of(lowered, predictions, targets)["bleu"] == pytest.approx(100)
    assert "case:lc" in lowered.signature
    assert "tok:none" in lowered.signature


def test_signatures_say_how_it_was_counted():
    assert BLEU().signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert ChrF().signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|")
    assert Rouge(stem=False).signature.startswith("stem:no|rouge-score:0.")


def test_words_with_spaces_between_are_expected_without_a_tokenizer(caplog):
    texts = ["a dog ."] * 100
    with caplog.at_level(logging.WARNING, "sacrebleu"):
        BLEU("none").statistics(texts, texts)
        assert caplog.messages == []
        BLEU("13a").statistics(texts, texts)
    assert "tokenized period" in caplog.messages[0]


@pytest.mark.parametrize("metric", [BLEU(), ChrF(), Rouge()], ids=str)
def test_as_many_predictions_as_targets(metric):
    with pytest.raises(ValueError, match=r"2 predictions, 1 targets|zip"):
        metric.statistics(["a", "b"], ["a"])


@pytest.mark.parametrize("metric", [BLEU(), ChrF(), Rouge()], ids=str)
def test_a_missing_library_is_named_with_its_extra(metric, monkeypatch):
    for name in ["sacrebleu", "rouge_score", "rouge_score.rouge_scorer"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"needs (sacrebleu|rouge-score).*evaluation"):
        metric.statistics(["a"], ["a"])
