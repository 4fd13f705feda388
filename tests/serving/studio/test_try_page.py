"""The page Try in Chromium: `make test-studio`. The checks are in `try_checks.py`."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.objective_configs import config_of
from tests.serving.conftest import TINY, exported_run, make_run
from tests.serving.server.conftest import running, settings_for
from tests.serving.server.server_process import started
from tests.serving.studio.test_page import CHROMIUM, CONFIGS, PYTHON
from tests.serving.studio.test_page import pytestmark as pytestmark
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.traits import TRAITS

# The kinds whose answer is not a text, or has more than that.
KINDS = [
    kind
    for kind, row in TRAITS.items()
    if "generated_text" not in row.outputs or "gaps" in row.outputs
]

SCRIPT = Path(__file__).parent / "try_checks.py"
CHECKS = [
    node.name.removeprefix("check_")
    for node in ast.parse(SCRIPT.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = [make_run(tmp_path_factory.mktemp("runs") / "without", TINY)]
    made.append(exported_run(TINY).run_folder)
    for name in ("causal", "seq2seq"):
        # The text that tokenizers are trained on here has few words.
        config = load_run(CONFIGS / f"{name}.yaml", ["tokenizer.vocabulary_size=300"])
        export = replace(config.export, tflite=())
        config = replace(config, training=TINY.training, export=export)
        made.append(exported_run(config, optimized=False).run_folder)
    for kind in KINDS:
        config = config_of(kind)
        export = replace(config.export, tflite=())
        config = replace(config, name=kind, export=export)
        made.append(exported_run(config, optimized=False).run_folder)
    return tuple(made)


@pytest.fixture(scope="module")
def page(runs):
    settings = settings_for(
        port=None, has_studio=True, studio_runs=runs, studio_loads=True
    )
    with running(settings) as client:
        yield f"{client.addresses.rest}/studio/"


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "token"])
def test_page(page, name):
    run_check(page, name)


def test_page_of_transbeam_serve_with_a_token(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    run = exported_run(TINY).run_folder
    with started(str(run), "--studio", "--token-file", str(token)) as (_, address):
        run_check(f"{address}/studio/", "token")


def run_check(page, name):
    done = subprocess.run(
        [str(PYTHON), str(SCRIPT), str(CHROMIUM), page, name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TRANSBEAM_CLIENT_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
