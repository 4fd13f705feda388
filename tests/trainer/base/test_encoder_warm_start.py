"""An encoder-decoder begins with the weights of an encoder, and reads as it does."""

from dataclasses import replace

import numpy as np
import pytest

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.compatibility import model_differences, takes_encoder
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.encoder_weights import (
    as_decoder_weights,
    as_encoder_weights,
    is_of_decoder,
)
from transbeam.model.weights.safetensors_store import load_matching_weights

PIECES = 30
SIZES = """\
  num_layers: 2
  hidden_dim: 16
  max_sequence_length: 12
  embeddings_norm: true
  attention: {kind: full, num_heads: 2}
  feedforward: {kind: dense, intermediate_dim: 32}
"""
ENCODER = f"""\
name: encoder
data: {{source: {{kind: text, path: a.txt}}, sequence_length: 12}}
model:
{SIZES}
  num_segments: SEGMENTS
  position: POSITION
"""
BOTH = f"""\
name: both
data: {{source: {{kind: parallel, path: a, target_path: b}}, sequence_length: 12}}
tokenizer: {{kind: byte_bpe}}
objective: {{kind: seq2seq, decoder_length: 12}}
model:
  kind: seq2seq
  num_decoder_layers: 1
{SIZES}
  position: POSITION
"""


def runs(position: str, segments: int = 0):
    encoder = ENCODER.replace("POSITION", position).replace("SEGMENTS", str(segments))
    both = BOTH.replace("POSITION", position)
    return parse_run(encoder, "encoder.yaml"), parse_run(both, "both.yaml")


@pytest.mark.parametrize(
    ("position", "segments"),
    [
        ("{kind: learned}", 0),
        ("{kind: learned}", 2),
        ("{kind: sinusoidal}", 0),
        ("{kind: relative_bias, num_buckets: 8}", 0),
        ("{kind: rope}", 0),
    ],
)
def test_its_encoder_gives_the_vectors_of_the_encoder(position, segments) -> None:
    there, here = runs(position, segments)
    assert takes_encoder(there, here)
    assert model_differences(there, here) == []
    encoder = build_encoder(there.model, PIECES)
    random = np.random.default_rng(0)
    for variable in encoder.weights:
        variable.assign(random.normal(0.1, 0.5, variable.shape))
    weights = {path: x.numpy() for path, x in variables_by_path(encoder).items()}
    model = build_seq2seq(here.model, PIECES)
    renamed = as_encoder_weights(weights)
    new = load_matching_weights(model, renamed, "runs/encoder", is_of_decoder)
    assert new
    assert all(path.startswith("decoder_") for path in new)
    assert renamed.keys() <= variables_by_path(model).keys()

    ids = random.integers(1, PIECES, (2, 12)).astype(np.int32)
    mask = (np.arange(12) < [[12], [7]]).astype(np.int32)
    inputs = {"token_ids": ids, "padding_mask": mask}
    if segments:
        inputs["segment_ids"] = np.zeros_like(ids)
    expected = encoder.predict(inputs, verbose=0)["sequence_output"]
    decoder = {"decoder_token_ids": ids, "decoder_padding_mask": mask}
    own = {"encoder_token_ids": ids, "encoder_padding_mask": mask}
    found = model.predict({**own, **decoder}, verbose=0)["encoder_sequence_output"]
    np.testing.assert_allclose(found[mask == 1], expected[mask == 1], atol=1e-5)


@pytest.mark.parametrize(
    ("blocks", "origins"), [(1, [0]), (2, [0, 2]), (3, [0, 1, 2]), (4, [0, 1, 1, 2])]
)
def test_its_decoder_begins_with_the_blocks_of_the_encoder(blocks, origins) -> None:
    there, here = runs("{kind: learned}", segments=2)
    encoder = build_encoder(replace(there.model, num_layers=3), PIECES)
    for number, variable in enumerate(encoder.weights):
        variable.assign(np.full(variable.shape, number))
    weights = as_encoder_weights(
        {path: x.numpy() for path, x in variables_by_path(encoder).items()}
    )
    both = replace(here.model, num_layers=3, num_decoder_layers=blocks)
    variables = variables_by_path(build_seq2seq(both, PIECES))
    shapes = {path: tuple(x.shape) for path, x in variables.items()}
    found = as_decoder_weights(weights, shapes)

    assert found.keys() == {path for path in shapes if path.startswith("decoder_")}
    for path, value in found.items():
        assert value.shape == shapes[path]
        layer, _, rest = path.partition("/")
        if layer.startswith("decoder_layer_"):
            own = origins[int(layer[-1])]
            origin = 2 if rest.startswith("cross_attention") else own
            rest = rest.replace("cross_", "self_")
            np.testing.assert_array_equal(
                value, weights[f"encoder_layer_{origin}/{rest}"]
            )
        else:
            origin = path.replace("decoder_", "encoder_")
            np.testing.assert_array_equal(value, weights[origin])


def test_weights_of_another_shape_stay_new() -> None:
    there, here = runs("{kind: relative_bias, num_buckets: 8}")
    encoder = build_encoder(there.model, PIECES)
    weights = as_encoder_weights(
        {path: x.numpy() for path, x in variables_by_path(encoder).items()}
    )
    grouped = replace(here.model.attention, num_key_value_heads=1)
    both = replace(here.model, decoder_attention=grouped)
    shapes = {
        path: tuple(x.shape)
        for path, x in variables_by_path(build_seq2seq(both, PIECES)).items()
    }
    new = {path for path in shapes if path.startswith("decoder_")}
    new -= as_decoder_weights(weights, shapes).keys()
    # A decoder counts distances in one direction, and an encoder in both.
    names = {path.partition("decoder_layer_0/")[2] or path for path in new}
    assert names == {
        "decoder_relative_bias/embeddings",
        *(
            f"self_attention/{name}/{part}"
            for name in ("key", "value")
            for part in ("kernel", "bias")
        ),
        *(
            f"cross_attention/{name}/{part}"
            for name in ("key", "value")
            for part in ("kernel", "bias")
        ),
    }


def test_other_encoders_are_refused_by_their_keys() -> None:
    there, here = runs("{kind: sinusoidal}", segments=2)
    # Without positions that have weights nothing can hold the segments' vectors.
    assert model_differences(there, here) == [
        "model.num_segments: 2 there, nothing here"
    ]
    there, here = runs("{kind: learned}")
    other = replace(there, model=replace(there.model, num_layers=3))
    assert model_differences(other, here) == ["model.num_layers: 3 there, 2 here"]
    longer = replace(there, model=replace(there.model, max_sequence_length=20))
    assert model_differences(longer, here) == [
        "model.max_sequence_length: 20 there, 12 here"
    ]
    # The other way round there is no encoder to take.
    assert not takes_encoder(here, there)
    assert "model.kind: seq2seq there, encoder here" in model_differences(here, there)


def test_weights_of_its_encoder_may_not_be_missing() -> None:
    there, here = runs("{kind: learned}")
    encoder = build_encoder(there.model, PIECES)
    weights = {path: x.numpy() for path, x in variables_by_path(encoder).items()}
    del weights["encoder_layer_1/feedforward_norm/gamma"]
    model = build_seq2seq(here.model, PIECES)
    with pytest.raises(
        ArtifactError, match="encoder_layer_1/feedforward_norm/gamma: mis"
    ):
        load_matching_weights(model, as_encoder_weights(weights), "x", is_of_decoder)


def test_the_configuration_takes_sizes_and_tokenizer(tmp_path, monkeypatch) -> None:
    from tests.finished_runs import MINILM, imported_run

    monkeypatch.chdir(tmp_path)
    imported_run(tmp_path / "runs/minilm", parse_run(MINILM, "minilm.yaml"))
    text = """\
name: both
data: {source: {kind: csv, path: a.csv, columns: {label: label}}}
objective: {kind: text_to_text, source: "{text}", target: "{label}"}
model: {init_from: runs/minilm, kind: seq2seq, num_decoder_layers: 2}
training: {steps: 1000}
"""
    run = parse_run(text, "both.yaml", with_model=True)
    assert run.model.kind == "seq2seq"
    assert (run.model.num_layers, run.model.decoder_layers) == (6, 2)
    assert run.model.hidden_dim == 384
    assert run.tokenizer.path == "runs/minilm/imported/tokenizer"
    assert run.training.init_from == "runs/minilm"
    with pytest.raises(ConfigError, match="hidden_dim: 384 there, 192 here"):
        parse_run(text, "both.yaml", ["model.hidden_dim=192"], with_model=True)
