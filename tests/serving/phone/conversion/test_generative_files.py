"""TFLite files that write: signatures, sizes, and the gate that holds them to Keras."""

from dataclasses import replace

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tensorflow.lite.python import schema_py_generated as schema

from tests.serving.phone.generative_models import (
    GPT2,
    PREFIX,
    SLOTS,
    T5,
    VARIANTS,
    converted,
    shared,
    small,
    trained_of,
)
from tests.serving.untrained import TINY, untrained_of
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.parity.checker_factory import make_parity_checker
from transbeam.serving.signatures.task_factory import make_signature_task

WRITERS = sorted(
    path.stem
    for path in TINY.glob("*.yaml")
    if load_run(path, with_model=True).model.kind != "encoder"
)
# GPT-2's, a pair's and a prefix's pass it below, in files that others need, too.
QUICK = ("llama_7b",)
MARKED = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
    for name in WRITERS
]


@pytest.mark.parametrize("name", MARKED)
def test_what_every_preset_writes_passes_the_gate(name, tmp_path):
    run = load_run(TINY / f"{name}.yaml", with_model=True)
    run = replace(run, export=replace(run.export, tflite=VARIANTS))
    trained, files = converted(run, tmp_path / "tflite")
    judge = make_parity_checker(trained, tmp_path)
    for variant, file in files.items():
        require_passed(judge, variant, file)


def require_passed(judge, variant, file):
    for delegate in (True, False):
        model = TFLiteRunner(file, delegate=delegate)
        rows = judge.phone_rows("form", variant, model)
        assert len(rows) == 3
        assert not [row for row in rows if not row.passed]
        if variant == "float32":
            assert rows[0].value < 1e-4  # of log-probabilities, not only allowed


def described(details):
    return {
        name: (detail["dtype"], detail["shape"].tolist())
        for name, detail in details.items()
    }


@pytest.fixture(scope="module")
def decoder():
    return shared(**GPT2)


@pytest.fixture(scope="module")
def pair():
    return shared(**T5)


@pytest.fixture(scope="module")
def prefix():
    return shared(**PREFIX)


def test_a_decoders_signatures_are_those_of_litert_lm(decoder):
    trained, files = decoder
    model = Interpreter(str(files["float32"]))
    assert set(model.get_signature_list()) == {"prefill_4", "prefill_7", "decode"}
    heads, width = 3, 16
    cache = {
        f"kv_cache_{part}_{block}": (np.float32, [1, heads, SLOTS, width])
        for part in "kv"
        for block in range(2)
    }
    for name, size in (("prefill_4", 4), ("prefill_7", 7), ("decode", 1)):
        runner = model.get_signature_runner(name)
        assert described(runner.get_input_details()) == {
            "tokens": (np.int32, [1, size]),
            "input_pos": (np.int32, [size]),
            **cache,
        }
        scores = {"logits": (np.float32, [1, 1, trained.tokenizer.vocabulary_size])}
        outputs = described(runner.get_output_details())
        assert outputs == {**cache, **(scores if name == "decode" else {})}


def test_a_pairs_signatures(pair):
    trained, files = pair
    model = Interpreter(str(files["float32"]))
    signatures = {"encode", "prefill_4", "prefill_7", "decode"}
    assert set(model.get_signature_list()) == signatures
    length = trained.config.data.sequence_length
    source = {
        "token_ids": (np.int32, [1, length]),
        "padding_mask": (np.int32, [1, length]),
    }
    encode = model.get_signature_runner("encode")
    assert described(encode.get_input_details()) == source
    context = described(encode.get_output_details())
    assert context == {
        f"context_{part}_{block}": (np.float32, [1, 3, length, 16])
        for part in "kv"
        for block in range(2)
    }
    decode = described(model.get_signature_runner("decode").get_input_details())
    assert decode["padding_mask"] == source["padding_mask"]
    assert {name: decode[name] for name in context} == context
    assert decode["kv_cache_v_1"] == (np.float32, [1, 3, SLOTS, 16])


def test_a_prefix_is_not_taken_for_a_prefill(tmp_path):
    """LiteRT-LM would read it from left to right."""
    endpoints = make_signature_task(
        untrained_of(small("prefix"), tmp_path)
    ).phone_endpoints()
    names = {f"prefix_{size}" for size in (4, 7, SLOTS)} | {"decode"}
    assert set(endpoints) == names
    inputs = {str(spec.name) for spec in endpoints["prefix_7"].inputs}
    assert inputs == {"tokens", "padding_mask"}


@pytest.mark.parametrize("kind", ["decoder", "pair"])
def test_each_weight_is_there_once(request, kind):
    """Though each signature reads it, and the head reads the table backwards."""
    trained, files = request.getfixturevalue(kind)
    content = files["float32"].read_bytes()
    model = schema.Model.GetRootAsModel(content, 0)
    table = trained.model.get_layer("token_embedding").embeddings.numpy()
    sizes = [model.Buffers(i).DataLength() for i in range(model.BuffersLength())]
    assert sizes.count(table.nbytes) == 1
    assert content.count(table.tobytes()) == 1
    # Of all distances in an encoder's row there is one table, made beforehand.
    config = trained.config.model
    pairs = config.max_sequence_length**2 * config.attention.num_heads
    folded = 4 * pairs if kind == "pair" else 0
    assert sum(sizes) < 1.02 * 4 * trained.model.count_params() + folded
    content = files["dynamic_int8"].read_bytes()
    model = schema.Model.GetRootAsModel(content, 0)
    sizes = [model.Buffers(i).DataLength() for i in range(model.BuffersLength())]
    assert sizes.count(table.size) == 1
    assert sum(sizes) < 0.3 * 4 * trained.model.count_params() + folded


@pytest.mark.parametrize("kind", ["decoder", "pair"])
def test_no_tensor_has_too_many_axes(request, kind):
    _, files = request.getfixturevalue(kind)
    for file in files.values():
        model = schema.Model.GetRootAsModel(file.read_bytes(), 0)
        for number in range(model.SubgraphsLength()):
            graph = model.Subgraphs(number)
            for tensor in range(graph.TensorsLength()):
                assert graph.Tensors(tensor).ShapeLength() <= 5
                # Sizes that are not known would keep XNNPACK away.
                assert graph.Tensors(tensor).ShapeSignatureLength() == 0


def test_the_gate_notices_another_models_file(decoder, tmp_path):
    trained, files = decoder
    other = trained_of(trained.config, files["float32"].parents[1] / "tflite-run")
    for weight in other.model.weights:
        weight.assign(2.0 * weight)
    judge = make_parity_checker(other, tmp_path)
    for variant, file in files.items():
        rows = judge.phone_rows("form", variant, TFLiteRunner(file))
        assert [row.passed for row in rows[:2]] == [False, False]


@pytest.mark.parametrize("kind", ["decoder", "pair", "prefix"])
def test_the_gate_asks_what_a_short_cache_has_room_for(request, kind, tmp_path):
    trained, files = request.getfixturevalue(kind)
    judge = make_parity_checker(trained, tmp_path)
    for variant, file in files.items():
        require_passed(judge, variant, file)
    written = judge.ask_phone_once(TFLiteRunner(files["float32"]))
    assert 1 <= len(written.token_ids) <= SLOTS // 2


def test_sizes_are_cut_to_the_cache(tmp_path):
    config = small("causal")
    export = replace(config.export, tflite_cache=8, tflite_prefill=(64, 16, 4))
    trained = untrained_of(replace(config, export=export), tmp_path)
    assert set(make_signature_task(trained).phone_endpoints()) == {
        "prefill_4",
        "prefill_8",
        "decode",
    }
