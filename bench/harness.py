"""Choices by likelihood of lm-evaluation-harness: our server against transformers.

    python -m bench.harness TOKENIZER --peer PYTHON

`TOKENIZER` is a folder with the `vocab.json` and `merges.txt` of a byte-level BPE,
such as `data/tokenizer` of a run, and `PYTHON` that of an environment with
`lm_eval[api]`, torch and accelerate. A small GPT-2 with random weights answers the same
questions twice: by `hf` in transformers, and, imported and exported, by
`local-completions` from `transbeam serve`. Prints the largest difference of a
log-likelihood, and in how many questions the choice is another.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings

Answers = dict[int, list[tuple[float, bool]]]


def main() -> None:
    """Asks both, and prints how they differ."""
    parser = argparse.ArgumentParser(description="Asks the harness twice.")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--peer", type=Path, required=True, metavar="PYTHON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = Path(__file__).parent / "peers" / "harness_checkpoint.py"
        tokenizer = arguments.tokenizer.absolute()
        subprocess.run([arguments.peer, script, tokenizer, folder], check=True)
        checkpoint, run = folder / "checkpoint", folder / "run"
        _transbeam("import", checkpoint, "--run", run)
        _transbeam("export", run, "--set", "export.tflite=[]")
        theirs = _asked(
            arguments.peer, folder, "hf", f"pretrained={checkpoint},dtype=float32"
        )
        with _served(run / "export/saved_model") as address:
            ours = _asked(
                arguments.peer,
                folder,
                "local-completions",
                f"model=made,base_url={address}/openai/v1/completions,"
                f"tokenizer={checkpoint},tokenized_requests=True,max_length=128",
            )
    _print(ours, theirs)


def _transbeam(*words: object) -> None:
    command = [sys.executable, "-m", "transbeam", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _served(model: Path) -> Iterator[str]:
    models = (ModelSettings("made", model),)
    settings = ServerSettings(models=models, port=None, rest_port=0)
    with in_background(settings) as addresses:
        while not _is_ready(addresses.rest):
            time.sleep(0.5)
        yield addresses.rest


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz"):
            return True
    except urllib.error.HTTPError:
        return False


def _asked(peer: Path, folder: Path, kind: str, arguments: str) -> Answers:
    """Runs the harness, and reads log-likelihood and greediness of each choice."""
    output = folder / kind
    command = [peer, "-m", "lm_eval", "--model", kind, "--model_args", arguments]
    command += ["--tasks", "made", "--include_path", folder, "--log_samples"]
    command += ["--output_path", output]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [*map(str, command)], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    (samples,) = output.rglob("samples_made_*.jsonl")
    rows = map(json.loads, samples.read_text().splitlines())
    return {
        row["doc_id"]: [
            (float(one[0][0]), str(one[0][1]) == "True") for one in row["resps"]
        ]
        for row in rows
    }


def _print(ours: Answers, theirs: Answers) -> None:
    pairs = [
        (mine, other)
        for question in theirs
        for mine, other in zip(ours[question], theirs[question], strict=True)
    ]
    off = max(abs(mine[0] - other[0]) for mine, other in pairs)
    others = sum(_choice(ours[q]) != _choice(theirs[q]) for q in theirs)
    greedy = sum(mine[1] != other[1] for mine, other in pairs)
    print(f"{len(theirs)} questions, {len(pairs)} choices")
    print(f"largest difference of a log-likelihood: {off:.1e} nats")
    print(f"questions with another choice: {others}; other greedy flags: {greedy}")


def _choice(answers: list[tuple[float, bool]]) -> int:
    return max(range(len(answers)), key=lambda number: answers[number][0])


if __name__ == "__main__":
    main()
