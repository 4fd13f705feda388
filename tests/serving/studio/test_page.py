"""The studio's page in Chromium: `make test-studio`.

The checks are in `browser_checks.py`, those of other pages in scripts of their own.
They run in the interpreter that TRANSBEAM_STUDIO_PYTHON names, one of an environment of
its own with Playwright, and in the browser that TRANSBEAM_CHROMIUM names.
"""

import ast
import os
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serving.conftest import TINY, make_run
from tests.serving.server.conftest import SECRET, running, settings_for
from tests.serving.studio.checkpoints import keep_checkpoint
from tests.serving.studio.run_results.sample_results import (
    log_line,
    write_sample_results,
)
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import LowRankAttentionConfig

PYTHON = os.environ.get("TRANSBEAM_STUDIO_PYTHON")
CHROMIUM = os.environ.get("TRANSBEAM_CHROMIUM") or shutil.which("chromium")
SCRIPTS = [
    Path(__file__).parent / f"{name}_checks.py"
    for name in ("browser", "run_page", "compare")
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
    write_sample_results(made[0])
    (made[1] / "data/manifest.json").write_text("{")
    return (*made, unfinished_run(folder / "training"))


def unfinished_run(folder):
    """A run whose training has begun."""
    Stage(folder, "training", "transbeam train").begin({})
    (folder / "data").mkdir()
    save_config(folder / "data", TINY)
    return folder


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


WITH_CONDITIONS = {"token", "live_training"}


@pytest.mark.parametrize("name", sorted(CHECKS.keys() - WITH_CONDITIONS))
def test_page(page, name):
    run_check(page, name)


def test_curves_move_while_a_run_trains(page, runs):
    folder = runs[-1]
    log = folder / "training/metrics.jsonl"
    checking = threading.Thread(target=run_check, args=(page, "live_training"))
    checking.start()
    for step in range(1, 60):
        with log.open("a") as stream:
            stream.write(f"{log_line(step, loss=1 / step)}\n")
        checking.join(timeout=1)
        if step == 20:
            save_config(folder / "training", TINY)
            stage = Stage(folder, "training", "transbeam train")
            stage.finish({}, {"steps": 20, "summary": ""})
        if not checking.is_alive():
            break
    checking.join()


def test_page_of_a_server_with_a_token(runs):
    settings = settings_for(
        port=None, has_studio=True, studio_runs=runs[:1], tokens=SECRET
    )
    with running(settings) as client:
        run_check(f"{client.addresses.rest}/studio/", "token")
