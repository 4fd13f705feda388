"""Times the studio's page: 512 tokens, 12 layers of 12 heads, in Chromium.

    python -m bench.studio --browser-python PYTHON [--chromium FILE]

`PYTHON` is that of an environment with Playwright. Makes a run of BERT-base's shape
with one step of training, starts `transbeam studio`, and lets `studio_browser.py` open
the page. No peer is timed: the goals are 1 s until the first paint and 50 ms for a
hover.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.pairs import heading, row, spread
from transbeam import main as transbeam

CONFIG = """\
name: studio
seed: 17
data:
  source: {kind: python_docs, packages: [rich, yaml]}
  sequence_length: 512
tokenizer: {kind: wordpiece, vocabulary_size: 1024}
objective: {kind: masked}
model:
  num_layers: 12
  hidden_dim: 768
  max_sequence_length: 512
  attention: {num_heads: 12}
  feedforward: {intermediate_dim: 3072}
training: {steps: 1, batch_size: 1, validation_batches: 1, samples: 0}
"""
NAMES = {
    "first_paint": "first contentful paint of a new visit",
    "ready": "until all views of the text are drawn",
    "hover": "hover, from the pointer's event to the painted frame",
    "hover_95": "hover, 95th percentile",
    "layer": "another layer, until its maps are drawn",
}


def main() -> None:
    """Makes the run, measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser-python", type=Path, required=True)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run = _make_run(Path(name))
        with _studio(run) as url:
            script = Path(__file__).parent / "studio_browser.py"
            words = [given.browser_python, script, given.chromium, url]
            done = subprocess.run(
                list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True
            )
    found = json.loads(done.stdout)
    print(heading("what", "milliseconds"))
    for key, title in NAMES.items():
        print(row(title, spread(found[key], ",.0f")))
    print(f"\nChromium {found['version']}, {found['tokens']} tokens.")


def _make_run(folder: Path) -> Path:
    config = folder / "studio.yaml"
    config.write_text(CONFIG, "utf-8")
    run = folder / "run"
    for stage in ("data", "train"):
        if code := transbeam([stage, str(config), "--run", str(run), "--quiet"]):
            raise SystemExit(f"transbeam {stage}: ended with {code}")
    return run


@contextmanager
def _studio(run: Path) -> Iterator[str]:
    """Runs `transbeam studio`, and yields the page's address."""
    words = [sys.executable, "-m", "transbeam", "studio", str(run), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "http://" in line:
                    url = line[line.index("http://") :].split()[0]
                    break
            else:
                raise SystemExit("transbeam studio: ended")
            yield url
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
