"""Keras loads a saved model of ours once the package is imported, in any order."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import keras
import pytest

from tests.docs import ROOT
from transbeam.keras_registry import CLASSES, FUNCTIONS
from transbeam.model.layers.activations import gelu
from transbeam.model.layers.feedforward import FeedForward
from transbeam.trainer.optimizers.adafactor import Adafactor
from transbeam.trainer.optimizers.schedules import Warmup

# As it saves it again: the configuration of the whole, and the weights.
LOAD = """
model = keras.saving.load_model("model.keras")
weights = [weight.tolist() for weight in model.get_weights()]
print(json.dumps([model.to_json(), model.optimizer.get_config(), weights]))
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import keras, transbeam",
        # This module imports Keras, and is not complete by then.
        "import transbeam.model.layers.norms, keras",
    ],
)
def test_a_model_is_loaded_and_saved_without_its_modules(imports, tmp_path):
    inputs = keras.Input((4,))
    x = keras.layers.Dense(8, activation=gelu)(inputs)
    model = keras.Model(inputs, FeedForward(8, 12)(x))
    model.compile(Adafactor(Warmup(0.1, warmup_steps=3)), loss="mse")
    model.save(tmp_path / "model.keras")

    written = subprocess.run(
        [sys.executable, "-c", f"import json\n{imports}\n{LOAD}"],
        # JAX is there sooner than TensorFlow.
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    weights = [weight.tolist() for weight in model.get_weights()]
    expected = [model.to_json(), model.optimizer.get_config(), weights]
    assert json.loads(written.stdout) == json.loads(json.dumps(expected))


def test_the_tables_hold_every_registered_name():
    found = {ast.ClassDef: {}, ast.FunctionDef: {}}
    for module, node in registered():
        found[type(node)].setdefault(module, []).append(node.name)
    for kind, table in ((ast.ClassDef, CLASSES), (ast.FunctionDef, FUNCTIONS)):
        expected = {module: sorted(names) for module, names in found[kind].items()}
        assert {module: sorted(names) for module, names in table.items()} == expected


def registered() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """All that is decorated as Keras's, with the name of its module."""
    for room in ("model", "pipeline", "trainer", "serving"):
        for file in (ROOT / room).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                decorators = getattr(node, "decorator_list", ())
                if any("register_keras" in ast.dump(each) for each in decorators):
                    yield module, node
