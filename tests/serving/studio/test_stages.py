"""Stages of a text's way, and products of queries and keys, against the maps."""

import numpy as np
import pytest

from tests.serving.studio.inspected_texts import inspect_text
from tests.serving.untrained import untrained
from transbeam.configs.base.errors import ConfigError
from transbeam.serving.studio.query_key import multiply_query_and_key
from transbeam.serving.studio.stages import describe_stages


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokenizers")


@pytest.mark.parametrize("kind", ["masked", "causal", "seq2seq", "longformer_base"])
def test_stages_have_the_shapes_of_the_configuration(kind, folder):
    model, inspection = inspect_text(kind, folder)
    config = untrained(kind, folder).config.model
    stages = describe_stages(model, inspection)["stages"]
    by_path = {stage["path"]: stage for stage in stages}
    side = "decoder" if kind in ("causal", "seq2seq") else "encoder"
    length = len(inspection.rows[-1].tokens)
    block = f"{side}_layer_1"
    assert by_path[f"{block}/output"]["shape"] == [length, config.hidden_dim]
    heads = by_path[f"{block}/self_attention/heads"]["shape"]
    assert heads[:2] == [length, config.attention.num_heads]
    assert by_path[f"{block}/feedforward/units"]["length"] > 0
    parts = [stage["part"] for stage in stages]
    assert sorted(parts, key=["input", "embeddings", "block", "output"].index) == parts
    ids = f"{side}_token_ids" if kind == "seq2seq" else "token_ids"
    assert by_path[ids] == {
        "part": "input",
        "path": ids,
        "shape": [length],
        "length": None,
    }


# Full attention and cross-attention, one with groups of heads; none adds biases.
@pytest.mark.parametrize("kind", ["masked", "seq2seq", "llama_7b"])
def test_scores_give_the_weights(kind, folder):
    model, inspection = inspect_text(kind, folder)
    for group in inspection.groups:
        path, maps = group.paths[-1], group.maps[-1]
        head, query = maps.shape[0] - 1, maps.shape[1] - 1
        scores = []
        for attended in range(maps.shape[2]):
            found = multiply_query_and_key(
                model, inspection, path, head, query, attended
            )
            assert found["score"] == pytest.approx(sum(found["products"]), abs=1e-4)
            scores.append(found["score"])
        powers = np.exp(np.array(scores) - max(scores))
        weights = powers / powers.sum()
        np.testing.assert_allclose(weights, maps[head, query], atol=2e-3)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (("decoder_layer_9", 0, 0, 0), "there are decoder_layer_0/self_attention"),
        (("decoder_layer_0/self_attention", 99, 0, 0), "head=99"),
        (("decoder_layer_0/self_attention", 0, 99, 0), "query=99"),
        (("decoder_layer_0/self_attention", 0, 0, 99), "attended=99"),
    ],
)
def test_choices_that_are_not_there(folder, choice, words):
    model, inspection = inspect_text("causal", folder)
    with pytest.raises(ConfigError, match=words):
        multiply_query_and_key(model, inspection, *choice)
