"""A model with zeros among its weights: where they are, and that they stay."""

import json

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from tests.trainer.conftest import trained_run
from tests.trainer.derived_runs.test_prune_command import SMALL
from tests.trainer.importing.hugging_face_checkpoints import write_bert
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.weights.assign import variables_by_path
from transbeam.serving.base.trained_run import load_trained

TABLE = "token_embedding/embeddings"


@pytest.fixture(scope="module")
def trained():
    """A trained run; it is not to be changed."""
    return trained_run("four-heads", *SMALL)


def weights_of(folder) -> dict[str, np.ndarray]:
    model = load_trained(folder).model
    return {path: w.numpy() for path, w in variables_by_path(model).items()}


def test_half_of_every_kernel_is_zero_and_the_rest_is_as_it_was(
    trained, command, tmp_path
) -> None:
    new = tmp_path / "sparse"
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    told = command("prune", trained, "--run", new, "--weights", 0.5)
    assert told["code"] == 0
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
    old, sparse = weights_of(trained), weights_of(new)
    kernels = [path for path in old if path.endswith("/kernel")]
    assert list(told["pruned"]["by_weight"]) == kernels
    for path, values in old.items():
        if path not in kernels:
            np.testing.assert_array_equal(sparse[path], values, err_msg=path)
            continue
        kept = sparse[path] != 0
        assert kept.sum() == values.size // 2, path
        np.testing.assert_array_equal(sparse[path][kept], values[kept], err_msg=path)
        assert np.abs(values[~kept]).max() <= np.abs(values[kept]).min()
    sizes = told["pruned"]["bytes"]
    numbers = sum(old[path].size for path in kernels)
    assert sizes["dense"] == 4 * sum(x.size for x in old.values())
    assert sizes["bitmask"] == sizes["dense"] - 2 * numbers + numbers // 8
    assert sizes["gzip"] < told["gzip_bytes_before"] < sizes["dense"]

    made = load_run(new / "run.yaml", with_model=True)
    assert made.model == load_run(trained / "training/run.yaml").model
    pruning = made.training.pruning
    assert (pruning.sparsity, pruning.end_step, pruning.scope) == (0.5, 0, "matrix")
    assert command("prune", trained, "--run", new, "--weights", 0.5)["skipped"]

    again = command("prune", new, "--run", tmp_path / "x", "--weights", 0.5)
    assert "50.00% of the weights that --weights=0.5 prunes are zero" in again["error"]
    assert not (tmp_path / "x").exists()
    more = command("prune", new, "--run", tmp_path / "x", "--weights", 0.75)
    assert more["pruned"]["total"] == 0.75


def test_over_all_matrices_with_the_embeddings(trained, command, tmp_path) -> None:
    new = tmp_path / "sparse"
    told = command(
        *("prune", trained, "--run", new, "--weights", 0.3, "--scope", "global"),
        *("--targets", "*/kernel", "--targets", TABLE),
    )
    assert told["code"] == 0
    shares = told["pruned"]["by_weight"]
    assert TABLE in shares
    assert len(set(shares.values())) > 2
    assert told["pruned"]["total"] == pytest.approx(0.3, abs=1e-3)
    # One limit for all of them.
    old, sparse = weights_of(trained), weights_of(new)
    gone = [np.abs(old[path][sparse[path] == 0]).max() for path in shares]
    left = [np.abs(sparse[path][sparse[path] != 0]).min() for path in shares]
    assert max(gone) <= min(left)


@pytest.mark.thorough(
    instead="test_at_once_before_the_first_step_and_over_all_matrices, "
    "test_half_of_every_kernel_is_zero_and_the_rest_is_as_it_was"
)
def test_zeros_stay_in_further_training_and_in_the_export(
    trained, command, tmp_path
) -> None:
    new = tmp_path / "sparse"
    keys = (
        "training.steps=2",
        "export.tflite=[float32]",
        "training.pruning.interval=1",
    )
    overrides = [word for key in keys for word in ("--set", key)]
    told = command("prune", trained, "--run", new, "--weights", 0.5, *overrides)
    assert told["exportable"]
    before = weights_of(new)
    file = new / "run.yaml"
    for stage in ("data", "train", "export"):
        assert command(stage, file, "--run", new)["code"] == 0
    after = weights_of(new)
    kernels = [path for path in after if path.endswith("/kernel")]
    assert any(np.any(before[path] != after[path]) for path in kernels)
    for path in kernels:
        np.testing.assert_array_equal(after[path] == 0, before[path] == 0)
    expected = sorted((after[path] == 0).sum() for path in kernels)

    (version,) = (new / "export/saved_model").iterdir()
    reader = tf.train.load_checkpoint(str(version / "variables/variables"))
    shapes = reader.get_variable_to_shape_map()
    arrays = [reader.get_tensor(name) for name, shape in shapes.items() if shape]
    zeros = [int((x == 0).sum()) for x in arrays if x.dtype == np.float32]
    assert sorted(z for z in zeros if z >= min(expected)) == expected

    # The head is in one of the graphs alone.
    (tflite,) = (new / "export/tflite").glob("*.tflite")
    assert max(zeros_by_graph(str(tflite))) == sum(expected)


def zeros_by_graph(path: str) -> list[int]:
    """Zeros in the constant matrices of each signature's graph."""
    reader, found = Interpreter(path), []
    for graph in range(len(reader.get_signature_list())):
        found.append(0)
        for tensor in reader.get_tensor_details(graph):
            try:
                values = reader.get_tensor(tensor["index"], graph)
            except ValueError:  # not a constant
                continue
            if values.dtype == np.float32 and values.ndim == 2:
                found[-1] += int((values == 0).sum())
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weights", "0"], "--weights=0.0 is not between 0 and 1"),
        (["--weights", "1"], "--weights=1.0 is not between 0 and 1"),
        (["--weights", "nan"], "--weights=nan is not between 0 and 1"),
        (["--weights", "0.5", "--heads", "2"], "--weights and --heads"),
        (["--weights", "0.5", "--by", "entropy"], "--weights and --by"),
        (["--heads", "2", "--scope", "global"], "--scope: chooses among single"),
        (["--targets", "*/kernel"], "--targets: chooses among single"),
        (["--weights", "0.5", "--targets", "*/kernal"], "--targets: '*/kernal' fits"),
        (["--weights", "0.5", "--targets", "*/bias"], "only biases and norms"),
        (["--weights", "0.5", "--run", "{old}"], "is the run that is to be sparse"),
        (
            ["--weights", "0.5", "--set", "model.num_layers=2"],
            "model.num_layers: 1 there, 2 here",
        ),
    ],
    ids=lambda value: "",
)
def test_what_is_refused_leaves_nothing(trained, command, tmp_path, words, said):
    new, before = tmp_path / "new", sorted(trained.rglob("*"))
    words = [word.format(old=trained) for word in words]
    told = command("prune", trained, "--run", new, *words)
    assert told["code"] == 2
    assert said in told["error"]
    assert not new.exists()
    assert sorted(trained.rglob("*")) == before


def test_what_was_imported_needs_no_records(command, tmp_path) -> None:
    """Also without a head, for the vectors of texts."""
    old, new = tmp_path / "old", tmp_path / "new"
    source = write_bert(tmp_path / "published", "bert")
    assert command("import", source, "--run", old)["code"] == 0
    told = command("prune", old, "--run", new, "--weights", 0.5)
    assert told["code"] == 0
    assert told["exportable"]
    assert all(share == 0.5 for share in told["pruned"]["by_weight"].values())
    assert json.loads((new / "imported/stage.json").read_text())["result"] == {
        name: value for name, value in told.items() if name != "code"
    }
