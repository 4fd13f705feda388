"""The studio's page in Chromium: `make test-studio`.

The checks are in `browser_checks.py` and `compare_checks.py`. They run in the
interpreter that TRANSBEAM_STUDIO_PYTHON names, one of an environment of its own with
Playwright, and in the browser that TRANSBEAM_CHROMIUM names.
"""

import ast
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serving.conftest import TINY, make_run
from tests.serving.server.conftest import SECRET, running, settings_for
from tests.serving.studio.checkpoints import keep_checkpoint
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import LowRankAttentionConfig

PYTHON = os.environ.get("TRANSBEAM_STUDIO_PYTHON")
CHROMIUM = os.environ.get("TRANSBEAM_CHROMIUM") or shutil.which("chromium")
SCRIPTS = [
    Path(__file__).parent / name for name in ("browser_checks.py", "compare_checks.py")
]
CONFIGS = Path(__file__).parents[3] / "configs/tiny"
# The script of each check.
CHECKS = {
    node.name.removeprefix("check_"): script
    for script in SCRIPTS
    for node in ast.parse(script.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
}

pytestmark = [
    pytest.mark.skipif(
        PYTHON is None,
        reason="TRANSBEAM_STUDIO_PYTHON names no interpreter that has playwright; run "
        "`make test-studio`",
    ),
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="there is no chromium, and TRANSBEAM_CHROMIUM names none",
    ),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    attention = LowRankAttentionConfig(num_heads=2, rank=4)
    without = replace(TINY, model=replace(TINY.model, attention=attention))
    configs = {"tiny": TINY, "without": without}
    # The text that tokenizers are trained on here has few words.
    few = ["tokenizer.vocabulary_size=300"]
    for name in ("causal", "seq2seq"):
        config = load_run(CONFIGS / f"{name}.yaml", few)
        configs[name] = replace(config, training=TINY.training)
    made = [make_run(folder / name, config) for name, config in configs.items()]
    keep_checkpoint(made[0], 5)
    return tuple(made)


@pytest.fixture(scope="module")
def page(runs):
    settings = settings_for(port=None, has_studio=True, studio_runs=runs)
    with running(settings) as client:
        yield f"{client.addresses.rest}/studio/"


def run_check(url, name):
    done = subprocess.run(
        [str(PYTHON), str(CHECKS[name]), str(CHROMIUM), url, name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "token"])
def test_page(page, name):
    run_check(page, name)


def test_page_of_a_server_with_a_token(runs):
    settings = settings_for(
        port=None, has_studio=True, studio_runs=runs[:1], tokens=SECRET
    )
    with running(settings) as client:
        run_check(f"{client.addresses.rest}/studio/", "token")
