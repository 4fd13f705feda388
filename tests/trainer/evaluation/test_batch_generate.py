"""Answers of models that are known: one that copies, and a small one at random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from transbeam.configs.cli.progress import SilentBar
from transbeam.model.build import build_model
from transbeam.model.generation.decode_functions import DecodeFunctions
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.trainer.evaluation import batch_generate as writing
from transbeam.trainer.evaluation.batch_generate import grouped_by_length, write_answers
from transbeam.trainer.evaluation.generation_eval import text_scores

TEXTS = [b"a batch", b"the model reads a batch of tokens", b"every weight", b"norm"] * 9


@given(st.lists(st.integers(1, 64), min_size=1, max_size=50), st.integers(1, 9))
def test_groups_hold_every_text_once(lengths: list[int], size: int) -> None:
    groups = grouped_by_length(np.array(lengths), size, most=64)
    rows = np.concatenate([group.rows[: group.real] for group in groups])
    assert sorted(rows) == list(range(len(lengths)))
    assert len({len(group.rows) for group in groups}) == 1
    for group in groups:
        assert np.max(np.array(lengths)[group.rows]) <= group.width <= 64


def copying(model, token_ids, padding_mask, *, keep_hidden):
    """Steps of a model that says what it reads."""

    def said(index):
        return ops.one_hot(ops.take(token_ids, [index], axis=1), 300) * 50.0

    def prefill(prompts, mask, slots):
        return said(0)[:, 0], ()

    def step(tokens, cache, index):
        return said(index), ()

    return DecodeFunctions(prefill, step)


@pytest.mark.parametrize("method", ["{kind: greedy}", "{kind: sample}"])
def test_a_model_that_copies_gets_the_full_score(
    translator, monkeypatch, method
) -> None:
    run = translator(f"evaluation.method={method}")
    tokenizer = load_tokenizer(run.run_folder / "data/tokenizer")
    monkeypatch.setattr(writing, "seq2seq_steps", copying)
    answers = write_answers(TEXTS, None, tokenizer, run.config, SilentBar())
    assert [answer.encode() for answer in answers] == TEXTS
    names = ("bleu", "bleu_lowercase", "chrf", "rouge", "exact_match")
    scores = text_scores(answers, answers, names, seed=1)
    assert scores["bleu"].low == pytest.approx(100.0)
    assert scores["chrf"].low == pytest.approx(100.0)
    assert scores["rougeL"].score == scores["exact_match"].score == 1.0


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "greedy",
            marks=pytest.mark.thorough(
                instead="test_an_answer_does_not_depend_on_its_neighbours, "
                "test_answers_to_every_validation_text_and_those_of_an_export"
            ),
        ),
        "beam",
        "contrastive",
    ],
)
def test_an_answer_does_not_depend_on_its_neighbours(translator, kind) -> None:
    run = translator(
        f"evaluation.method={{kind: {kind}}}", "evaluation.max_new_tokens=5"
    )
    tokenizer = load_tokenizer(run.run_folder / "data/tokenizer")
    model = build_model(run.config.model, run.config.objective, 300)
    bar = SilentBar()
    together = write_answers(TEXTS, model, tokenizer, run.config, bar)
    alone = write_answers(TEXTS[1:2], model, tokenizer, run.config, bar)
    assert together[1::4] == alone * 9
