"""Choices and perplexities of lm-evaluation-harness against ours.

    python -m bench.harness TOKENIZER --peer PYTHON [--family llama]

`TOKENIZER` is a folder with the `vocab.json` and `merges.txt` of a byte-level BPE,
such as `data/tokenizer` of a run, and `PYTHON` that of an environment with
`lm_eval[api]`, torch and accelerate. A small GPT-2 or LLaMA with random weights answers
the same questions three times: by `hf` in transformers; imported, by `transbeam
evaluate --tasks`; and exported, by `local-completions` from `transbeam serve`. Prints
the largest difference of a log-likelihood, and in how many questions the choice is
another. Of whole texts, in windows of 128 tokens, `hf` and ours are compared.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.models.catalog import ModelSettings

Scores = Mapping[int, Sequence[float]]  # log-likelihoods of each question
TASKS = """
name: harness
tasks:
- kind: choice
  name: made
  source:
    kind: jsonl
    path: "{data}"
    columns: {{text: question, choices: [choices], label: label}}
  prompt: "{{text}}:"
- kind: perplexity
  name: rolled
  source: {{kind: jsonl, path: "{data}"}}
"""


def main() -> None:
    """Asks all, and prints how they differ."""
    parser = argparse.ArgumentParser(description="Asks the harness and ours.")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--peer", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--family", choices=["gpt2", "llama"], default="gpt2")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = Path(__file__).parent / "peers" / "harness_checkpoint.py"
        tokenizer = arguments.tokenizer.absolute()
        words = [arguments.peer, script, tokenizer, folder, arguments.family]
        subprocess.run(words, check=True)
        checkpoint, run = folder / "checkpoint", folder / "run"
        _transbeam("import", checkpoint, "--run", run)
        _transbeam("export", run, "--set", "export.tflite=[]")
        (folder / "tasks.yaml").write_text(TASKS.format(data=folder / "data.jsonl"))
        _transbeam("evaluate", run, "--tasks", folder / "tasks.yaml")
        hugging_face = ("hf", f"pretrained={checkpoint},dtype=float32")
        theirs = _asked(arguments.peer, folder, "made", *hugging_face)
        rolled = _asked(arguments.peer, folder, "rolled", *hugging_face)
        with _served(run / "export/saved_model") as address:
            served = _asked(
                arguments.peer,
                folder,
                "made",
                "local-completions",
                f"model=made,base_url={address}/openai/v1/completions,"
                f"tokenizer={checkpoint},tokenized_requests=True,max_length=128",
            )
        questions = [*map(json.loads, (folder / "data.jsonl").open())]
        written = run / "evaluation" / "tasks" / "harness"
        ours = _rows(written / "made-0.jsonl")
        texts = _rows(written / "rolled-0.jsonl")
        found = {number: row["log_likelihoods"] for number, row in enumerate(ours)}
        whole = {number: [-row["nats"]] for number, row in enumerate(texts)}
    _print("transbeam evaluate --tasks", found, theirs, questions)
    chosen = [row["chosen"] for row in ours]
    lengths_of = {"accuracy_per_character": len, "accuracy_per_byte": _bytes}
    for name, lengths in lengths_of.items():
        different = sum(
            of[name] != _choice(_divided(theirs[number], questions[number], lengths))
            for number, of in enumerate(chosen)
        )
        print(f"  questions with another choice by {name}: {different}")
    _print("transbeam serve, local-completions", served, theirs, questions)
    off = max(abs(whole[number][0] - rolled[number][0]) for number in rolled)
    print(f"{len(rolled)} whole texts, largest difference: {off:.1e} nats")


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


def _asked(peer: Path, folder: Path, task: str, kind: str, arguments: str) -> Scores:
    """Runs the harness, and reads the log-likelihoods of each question."""
    output = folder / f"{task}-{kind}"
    command = [peer, "-m", "lm_eval", "--model", kind, "--model_args", arguments]
    command += ["--tasks", task, "--include_path", folder, "--log_samples"]
    command += ["--output_path", output]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [*map(str, command)], check=True, env=environment, stdout=subprocess.DEVNULL
    )
    (samples,) = output.rglob(f"samples_{task}_*.jsonl")
    return {row["doc_id"]: _log_likelihoods(row["resps"]) for row in _rows(samples)}


def _log_likelihoods(responses: Sequence[Any]) -> list[float]:
    """Of each choice; the harness also says whether it is greedy."""
    firsts = [one[0] for one in responses]
    return [float(of[0] if isinstance(of, list) else of) for of in firsts]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _print(
    what: str, ours: Scores, theirs: Scores, questions: Sequence[Mapping[str, Any]]
) -> None:
    assert len(ours) == len(theirs) == len(questions)
    pairs = [
        pair
        for number in theirs
        for pair in zip(ours[number], theirs[number], strict=True)
    ]
    off = max(abs(mine - other) for mine, other in pairs)
    others = sum(_choice(ours[q]) != _choice(theirs[q]) for q in theirs)
    print(f"{what}: {len(theirs)} questions, {len(pairs)} choices")
    print(f"  largest difference of a log-likelihood: {off:.1e} nats")
    print(f"  questions with another choice: {others}")


def _choice(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=lambda number: scores[number])


def _divided(scores: Sequence[float], question: Mapping[str, Any], length: Any) -> Any:
    pairs = zip(scores, question["choices"], strict=True)
    return [score / length(choice) for score, choice in pairs]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8"))


if __name__ == "__main__":
    main()
