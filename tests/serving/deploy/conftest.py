"""The files of `transbeam deploy` for a minimal exported run."""

import json

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tests.docs import ROOT
from transbeam.configs.loader.run_folder import Stage
from transbeam.serving.__main__ import main

CONFIG = str(ROOT / "configs/tiny/masked.yaml")
MODEL = "tiny_masked"
NAME = "tiny-masked"
SIGNATURES = {
    "serving_default": ({"text": "DT_STRING"}, {"fills": "DT_STRING"}),
    "fill_mask": (
        {"token_ids": "DT_INT32", "padding_mask": "DT_BOOL"},
        {"logits": "DT_FLOAT"},
    ),
    "stream_begin": ({"text": "DT_STRING"}, {"state_length": "DT_INT32"}),
    "__saved_model_init_op": ({}, {"__saved_model_init_op": "DT_INVALID"}),
}


def make_export(run_folder, version=1):
    """An export stage with a SavedModel of signatures that have nothing behind them."""
    stage = Stage(run_folder, "export", "transbeam export")
    stage.begin({})
    saved_model = saved_model_pb2.SavedModel()
    graph = saved_model.meta_graphs.add()
    graph.meta_info_def.tensorflow_version = "2.21.0"
    for name, sides in SIGNATURES.items():
        signature = graph.signature_def[name]
        for tensors, types in zip(
            (signature.inputs, signature.outputs), sides, strict=True
        ):
            for tensor, type_ in types.items():
                tensors[tensor].dtype = types_pb2.DataType.Value(type_)
    folder = stage.path / "saved_model" / str(version)
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(saved_model.SerializeToString())
    (folder / "variables/variables.data-00000-of-00001").write_bytes(bytes(3 * 2**20))
    stage.finish({}, {})
    return run_folder


@pytest.fixture
def run(tmp_path):
    return make_export(tmp_path / "run")


@pytest.fixture(scope="session")
def deployed(tmp_path_factory):
    """The folder of a deployment; tests only read it."""
    folder = make_export(tmp_path_factory.mktemp("runs") / "tiny_masked")
    assert main(["deploy", CONFIG, "--run", str(folder), "--quiet"]) == 0
    return folder / "deploy"


@pytest.fixture
def deploy(run, capsys):
    """Runs the command on an exported run: its exit code, and what it told."""

    def ask(*arguments, config=CONFIG):
        command = ["deploy", config, "--run", str(run), *arguments]
        code = main(command)
        told = capsys.readouterr()
        return code, json.loads(told.out) if "--json" in arguments else told.err

    return ask
