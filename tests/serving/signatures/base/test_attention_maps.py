"""The signature `attention`: who looks at whom, for any model with full attention."""

from dataclasses import replace

import numpy as np
import pytest

from tests.serving.session import asking
from tests.serving.untrained import untrained
from transbeam.serving.parity.attention_maps import attention_rows
from transbeam.serving.signatures.base.attention_maps import LONGEST
from transbeam.serving.signatures.task_factory import make_signature_task

WITH_MAPS = ("masked", "sentence_pairs", "causal", "seq2seq")
# Their positions are no table that ends.
ENDLESS = ("llama_7b", "transformer_base")
WITHOUT = ("longformer_base", "bigbird_base", "linformer_base", "performer_base")
LONG = "returns a list of names , " * 60


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(scope="module", params=WITH_MAPS)
def trained(request, tokenizers):
    return untrained(request.param, tokenizers)


def texts_of(trained, *texts):
    specs = make_signature_task(trained).endpoints()["attention"].inputs
    return {spec.name: list(texts) for spec in specs}


def test_maps_are_those_of_keras(trained):
    (row,) = attention_rows("form", asking(trained), trained)
    assert row.passed, row
    assert row.value < 1e-5


def test_the_gate_sees_maps_in_another_order(trained):
    def turned(signature, columns):
        found = asking(trained)(signature, columns)
        return {
            name: value[:, ::-1] if name.endswith("attention") else value
            for name, value in found.items()
        }

    (row,) = attention_rows("form", turned, trained)
    assert not row.passed


def test_each_token_gives_all_of_its_look_to_real_ones(trained):
    columns = texts_of(trained, "returns a list", "", "a")
    found = asking(trained)("attention", columns)
    for name, maps in found.items():
        if not name.endswith("attention"):
            continue
        asked = name.removesuffix("attention")
        asking_side = asked
        if name == "cross_attention":
            asking_side, asked = "decoder_", "encoder_"
        config = trained.config.model
        assert maps.shape[1:3] == (config.num_layers, config.attention.num_heads)
        for row in range(3):
            rows, columns = (
                int(found[f"{side}length"][row]) for side in (asking_side, asked)
            )
            total = maps[row].sum(axis=-1)
            np.testing.assert_allclose(total[..., :rows], 1, atol=1e-5)
            assert not total[..., rows:].any()
            assert not maps[row][..., columns:].any()


def test_tokens_are_told_as_people_read_them(trained):
    found = asking(trained)("attention", texts_of(trained, "returns a list", "a"))
    for name in (key for key in found if key.endswith("tokens")):
        lengths = found[name.replace("tokens", "length")]
        for row, length in zip(found[name], lengths, strict=True):
            assert all(piece.decode() for piece in row[:length])
            assert not any(row[length:])


@pytest.mark.parametrize("name", ENDLESS)
def test_of_a_long_text_the_beginning_is_looked_at(name, tokenizers):
    trained = untrained(name, tokenizers)
    model = replace(trained.config.model, max_sequence_length=4 * LONGEST)
    data = replace(trained.config.data, sequence_length=4 * LONGEST)
    longer = replace(trained, config=replace(trained.config, model=model, data=data))
    found = asking(longer)("attention", texts_of(trained, LONG, "a"))
    assert found["truncated"].tolist() == [True, False]
    for name in (key for key in found if key.endswith("tokens")):
        assert found[name].shape[1] <= LONGEST


@pytest.mark.parametrize("name", WITHOUT)
def test_where_not_all_look_at_all_there_is_no_map(name, tokenizers):
    trained = untrained(name, tokenizers)
    assert "attention" not in make_signature_task(trained).endpoints()
    assert attention_rows("form", None, trained) == []
