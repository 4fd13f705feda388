"""The part `roles`: heads with a known role, baselines, and what is left out."""

import json
import re

import numpy as np
import pytest

from tests.model.conftest import small_config
from tests.trainer.analysis.contexts import PIECES, make_context
from tests.trainer.analysis.syntax.test_syntax import treebank  # noqa: F401
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import AlibiPositionConfig
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts
from transbeam.trainer.analysis.syntax.coreference_cases import make_coreference_cases
from transbeam.trainer.analysis.syntax.role_scores import (
    COREFERENCE,
    DELIMITER,
    LONG_RANGE,
    POSITIONAL,
    ROLES,
    SEMANTIC,
    SYNTACTIC,
    RoleScore,
    score_coreference,
    score_text_roles,
)
from transbeam.trainer.analysis.syntax.roles import analyze_roles, choose_best_heads
from transbeam.trainer.analysis.syntax.word_texts import HeadName
from transbeam.trainer.metrics.confidence_intervals import Interval

BEGIN, END = PIECES.index("[CLS]"), PIECES.index("[SEP]")
# With all words of the sentences about pronouns.
_KNOWN = re.findall(
    r"\w+", " ".join(case.text.lower() for case in make_coreference_cases())
)


KNOWING = tuple(dict.fromkeys([*PIECES, *_KNOWN]))


def some_texts(number=12, longest=14):
    generator = np.random.default_rng(0)
    rows = []
    for _ in range(number):
        inner = generator.integers(5, len(PIECES), generator.integers(4, longest))
        rows.append({"token_ids": np.array([BEGIN, *inner, END], np.int32)})
    return AnalyzedTexts("some", tuple(rows))


def encoder(**changes):
    return small_config(hidden_dim=12, num_segments=0, num_layers=1, **changes)


def without_content(context):
    """Makes scores depend on positions alone."""
    for weight in context.model.weights:
        if "/query/" in weight.path:
            weight.assign(np.zeros(weight.shape))


def score_by_role(context):
    scores = score_text_roles(context)
    return {role: [s for s in scores if s.role == role] for role in ROLES}


def test_uniform_heads_have_no_role():
    """They are exactly as good as the baselines that attend to all alike."""
    context = make_context(encoder(), some_texts())
    without_content(context)
    scores = score_by_role(context)
    for role in (POSITIONAL, LONG_RANGE, DELIMITER):
        assert len(scores[role]) == 2
        for score in scores[role]:
            assert score.score.score == pytest.approx(score.baseline, abs=1e-5)
            assert not score.is_found
    assert not scores[SEMANTIC]  # no order of equal weights


def test_near_heads_are_positional():
    """With ALiBi alone, weights fall with the distance: steeply in the first head."""
    attention = FullAttentionConfig(num_heads=8)
    model = small_config(
        num_segments=0,
        num_layers=1,
        position=AlibiPositionConfig(),
        attention=attention,
    )
    context = make_context(model, some_texts())
    without_content(context)
    scores = score_by_role(context)
    first = scores[POSITIONAL][0]
    assert first.is_found
    assert first.detail in ("offset -1", "offset +1")
    # Of a text without an end: e^-.5 of 1 + 2 (e^-.5 + e^-1 + ...).
    assert 0.149 < first.score.score < 0.25
    assert not any(score.is_found for score in scores[LONG_RANGE])


def test_a_part_with_a_treebank(treebank):  # noqa: F811
    part = analyze_roles(
        make_context(encoder(), some_texts(), max_tokens=512), treebank
    )
    heads = part.tables["heads"].to_pylist()
    roles = {role: 0 for role in (POSITIONAL, SYNTACTIC, SEMANTIC, LONG_RANGE)}
    for row in heads:
        assert 0 <= row["low"] <= row["score"] <= row["high"] <= 1
        assert row["found"] == (row["low"] > row["baseline"])
        roles[row["role"]] = roles.get(row["role"], 0) + 1
    assert set(roles.values()) == {2}
    assert COREFERENCE not in roles
    assert any(note.startswith("Coreference: left out") for note in part.notes)
    for role, best in part.numbers.items():
        same = [row["score"] for row in heads if row["role"] == role]
        assert best["score"] == max(same)
        is_told = any(
            note.lower().startswith(f"{role}: not found") for note in part.notes
        )
        assert is_told == (not best["found"])
    assert len(part.figures["radar"].axes) == len(part.numbers) == 5
    json.dumps(dict(part.numbers), allow_nan=False)


def test_coreference_of_a_tokenizer_that_knows_the_words():
    context = make_context(encoder(), some_texts(), KNOWING)
    part = analyze_roles(context)
    assert part.numbers[COREFERENCE]["baseline"] == 0.5
    assert "Syntactic: left out, as it needs a treebank." in part.notes
    # A head that does not see the pronoun is right half of the time.
    without_content(context)
    for score in score_coreference(context):
        assert score.score == (0.5, 0.5, 0.5)
        assert not score.is_found


@pytest.mark.parametrize(
    "model",
    [
        DecoderConfig(num_layers=1, hidden_dim=8, max_sequence_length=20),
        Seq2SeqModelConfig(num_layers=1, hidden_dim=8, max_sequence_length=20),
    ],
    ids=["decoder", "seq2seq"],
)
def test_other_families(model):
    texts = some_texts()
    if isinstance(model, Seq2SeqModelConfig):
        rows = [
            {f"{side}_token_ids": row["token_ids"] for side in ("encoder", "decoder")}
            for row in texts.rows
        ]
        texts = AnalyzedTexts("pairs", tuple(rows))
    scores = score_text_roles(make_context(model, texts))
    assert {score.role for score in scores} == {
        POSITIONAL,
        LONG_RANGE,
        DELIMITER,
        SEMANTIC,
    }
    if isinstance(model, DecoderConfig):
        offsets = {s.detail for s in scores if s.role == POSITIONAL}
        assert all(offset.startswith("offset -") for offset in offsets)


@pytest.mark.parametrize(
    "attention",
    [
        SlidingWindowAttentionConfig(num_heads=2, window_size=6),
        BlockSparseAttentionConfig(num_heads=2, block_size=4, num_random_blocks=1),
    ],
    ids=["window", "blocks"],
)
def test_baselines_of_windows_and_blocks_are_of_what_heads_see(attention):
    context = make_context(encoder(attention=attention), some_texts())
    without_content(context)
    scores = score_by_role(context)
    for role in (POSITIONAL, DELIMITER):
        assert len(scores[role]) == 2
        for score in scores[role]:
            assert score.score.score == pytest.approx(score.baseline, abs=1e-5)
    # In a window of 6 a query sees 4 to 7 tokens, of which one is at each offset.
    if attention.kind == "sliding_window":
        assert 1 / 7 < scores[POSITIONAL][0].baseline < 1 / 4
        assert not scores[LONG_RANGE]  # nothing is seen that is more than 8 away


def test_texts_of_one_token():
    rows = tuple({"token_ids": np.array([BEGIN, END], np.int32)} for _ in range(3))
    assert score_text_roles(make_context(encoder(), AnalyzedTexts("a", rows))) == []


def test_best_heads():
    def score(role, head, value):
        interval = Interval(value, value - 0.1, value + 0.1)
        return RoleScore(role, HeadName("layer", head), interval, 0.5, "")

    best = choose_best_heads(
        [score(DELIMITER, 0, 0.55), score(DELIMITER, 1, 0.3), score(SEMANTIC, 1, 0.7)]
    )
    assert {role: one.name.head for role, one in best.items()} == {
        SEMANTIC: 1,
        DELIMITER: 0,
    }
    assert best[SEMANTIC].is_found
    assert not best[DELIMITER].is_found
