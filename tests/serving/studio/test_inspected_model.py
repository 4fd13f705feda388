"""Inspections of models of each family, against their signature `attention`."""

from pathlib import Path

import numpy as np
import pytest

from tests.serving.session import asking
from tests.serving.studio.test_head_summaries import summaries_of
from tests.serving.untrained import TINY as TINY_CONFIGS
from tests.serving.untrained import untrained
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import load_run
from transbeam.serving.signatures.base.attention_maps import attention_groups
from transbeam.serving.studio import inspected_model
from transbeam.serving.studio.inspected_model import InspectedModel
from transbeam.serving.studio.run_facts import RunFacts, read_facts

KINDS = ("masked", "sentence_pairs", "causal", "prefix", "seq2seq", "text_to_text")
TEXTS = ("Returns a [MASK] or a list.", "No café, 漢字 and 123.5!", "It <b>is</b>.")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


def facts(trained):
    return RunFacts("run", Path(), trained.config, None)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_maps_are_those_of_the_signature(kind, tokenizers):
    trained = untrained(kind, tokenizers)
    model = InspectedModel(facts(trained), trained)
    texts = dict(zip(facts(trained).inputs, TEXTS, strict=False))
    found = model.inspect(texts)
    answer = asking(trained)(
        "attention", {name: [text] for name, text in texts.items()}
    )
    assert found.truncated == answer["truncated"][0]
    rows = {"": found.rows[0]}
    if kind in ("seq2seq", "text_to_text"):
        rows = {f"{row.name}_": row for row in found.rows}
    lengths = {}
    for side, row in rows.items():
        lengths[side] = answer[f"{side}length"][0]
        ids = answer[f"{side}token_ids"][0, : lengths[side]]
        assert [token.id for token in row.tokens] == ids.tolist()
        pieces = answer[f"{side}tokens"][0, : lengths[side]]
        decoded = [piece.decode("utf-8", "replace") for piece in pieces]
        assert [token.piece for token in row.tokens] == decoded
    groups = attention_groups({f"{side}token_ids" for side in rows})
    assert [group.name for group in found.groups] == list(groups)
    for group in found.groups:
        _, queries, keys = groups[group.name]
        expected = answer[group.name][0, :, :, : lengths[queries], : lengths[keys]]
        np.testing.assert_allclose(np.stack(group.maps), expected, atol=1e-3)
        for maps, summaries in zip(expected, group.summaries, strict=True):
            same = group.queries == group.keys
            for name, values in summaries_of(maps, same_tokens=same).items():
                np.testing.assert_allclose(summaries[name], values, atol=1e-4)
            assert (summaries["distance"] is None) == (not same)
            is_pair = kind == "sentence_pairs"
            assert (summaries["first_to_second"] is not None) == is_pair
        assert list(rows)[group.queries] == queries
        assert list(rows)[group.keys] == keys
    plain = dict.fromkeys(texts, "Returns a list of the names.")
    for row in model.inspect(plain).rows:
        placed = [token.text is not None for token in row.tokens]
        assert placed == [not token.special for token in row.tokens]


@pytest.mark.parametrize("kind", ["longformer_base", "bigbird_base"])
def test_weights_in_blocks_are_put_at_their_tokens(kind, tokenizers):
    trained = untrained(kind, tokenizers)
    found = InspectedModel(facts(trained), trained).inspect({"text": "a list " * 40})
    [group] = found.groups
    length = len(found.rows[0].tokens)
    for maps in group.maps:
        assert maps.shape[1:] == (length, length)
        np.testing.assert_allclose(maps.sum(axis=2, dtype="f4"), 1, atol=2e-3)
    for maps, summaries in zip(group.maps, group.summaries, strict=True):
        for name, values in summaries_of(maps).items():
            np.testing.assert_allclose(summaries[name], values, rtol=0.01, atol=2e-3)


def test_a_text_over_the_limit_is_cut(tokenizers, monkeypatch):
    trained = untrained("masked", tokenizers)
    longest = trained.config.model.max_sequence_length
    model = InspectedModel(facts(trained), trained)
    assert model.limit == longest
    found = model.inspect({"text": "returns a list " * 2 * longest})
    assert found.truncated
    assert len(found.rows[0].tokens) == longest
    assert not model.inspect({"text": "a"}).truncated
    # So do maps that would not fit into memory.
    heads = 2 * trained.config.model.num_layers * 4
    monkeypatch.setattr(inspected_model, "MOST_BYTES", heads * 20**2)
    model = InspectedModel(facts(trained), trained)
    found = model.inspect({"text": "returns a list " * 20})
    assert (model.limit, len(found.rows[0].tokens), found.limit) == (20, 20, 20)
    assert found.bytes <= heads * 20**2


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("longformer_base", None),
        ("bigbird_base", None),
        ("linformer_base", "low_rank"),
        ("performer_base", "kernel"),
        ("vit_base", "images"),
        ("bert_base", None),
    ],
)
def test_a_model_without_maps_of_pairs_says_why(preset, words, tmp_path):
    config = load_run(TINY_CONFIGS / f"{preset}.yaml")
    stage = Stage(tmp_path, "training", "transbeam train")
    stage.begin({})
    save_config(stage.path, config)
    stage.finish({}, {})
    reason = read_facts(tmp_path, preset).why_no_maps
    assert reason is None if words is None else words in reason
