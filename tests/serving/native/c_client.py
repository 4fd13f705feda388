"""SavedModels asked by a C program: no Python is there, and no code of ours.

TF Serving loads a SavedModel by the same functions of TensorFlow's C++ library.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow.core.protobuf import saved_model_pb2

SOURCE = Path(__file__).parent / "session.c"
PROGRAM = "session"
Inputs = Mapping[str, np.ndarray]
Outputs = dict[str, np.ndarray]


def build(folder: Path) -> None:
    """Compiles the program; without a compiler the test is skipped."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    libraries = Path(tf.__file__).parent
    # Another linker takes four times as long to read TensorFlow's gigabyte.
    linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []
    subprocess.run(
        [
            compiler,
            *linker,
            "-O1",
            "-Wall",
            str(SOURCE),
            f"-I{tf.sysconfig.get_include()}",
            f"-Wl,-rpath,{libraries}",
            str(libraries / "libtensorflow_cc.so.2"),
            str(libraries / "libtensorflow_framework.so.2"),
            "-o",
            str(folder / PROGRAM),
        ],
        check=True,
    )


def ask_natively(
    program: Path, folder: Path, requests: Sequence[tuple[str, Inputs]]
) -> list[Outputs]:
    """The answers of a SavedModel's signatures, by name.

    Args:
        program: What `build` made.
        folder: The version folder.
        requests: Signatures with their inputs.
    """
    saved = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    signatures = saved.meta_graphs[0].signature_def
    lines, wanted = [], []
    for signature, inputs in requests:
        definition = signatures[signature]
        for name, value in inputs.items():
            lines += _written(definition.inputs[name].name, np.asarray(value))
        outputs = sorted(definition.outputs)
        lines += [f"output {definition.outputs[name].name}" for name in outputs]
        lines.append("run")
        wanted.append(outputs)
    text = Path(tf_text.__file__).parent
    done = subprocess.run(
        [str(program), str(folder), *map(str, sorted(text.glob("python/ops/_*.so")))],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        # Where the libraries of tensorflow_text look for those they need.
        env={
            **os.environ,
            "LD_LIBRARY_PATH": f"{text}/core/pybinds:{Path(tf.__file__).parent}/python",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = iter(done.stdout.splitlines())
    return [_answer(answers, outputs) for outputs in wanted]


def require_same(found: Outputs, expected: Outputs, atol: float = 1e-5) -> None:
    """Fails where an answer is not the expected one.

    Args:
        found: The answer.
        expected: What it should be.
        atol: What is rounding in a number about 1; sums of many are larger.
    """
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(
                found[name], value, rtol=2e-6, atol=atol, err_msg=name
            )
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def _written(name: str, value: np.ndarray) -> list[str]:
    dtype = tf.as_dtype(value.dtype)
    sizes = " ".join(map(str, value.shape))
    head = f"input {name} {dtype.as_datatype_enum} {value.ndim} {sizes}"
    flat = value.ravel().tolist()
    if dtype != tf.string:
        return [head, *map(repr, flat)]
    encoded = (one.encode() if isinstance(one, str) else one for one in flat)
    return [head, *(f"x{one.hex()}" for one in encoded)]


def _answer(lines: Iterator[str], outputs: Sequence[str]) -> Outputs:
    found = {}
    for name in outputs:
        _, _, dtype, _, *sizes = next(lines).split(" ")
        shape = tuple(map(int, sizes))
        kind = tf.as_dtype(int(dtype))
        values = [next(lines) for _ in range(int(np.prod(shape)))]
        if kind == tf.string:
            flat = [bytes.fromhex(value[1:]) for value in values]
            array = np.array([*flat, None], object)[:-1]
        elif kind == tf.bool:
            array = np.array([value == "1" for value in values])
        else:
            array = np.array(values).astype(kind.as_numpy_dtype)
        found[name] = array.reshape(shape)
    assert next(lines) == "run"
    return found
