"""Size, latency and loss of the files of `RUN/phone`, and parity by runtime.

    python -m bench.phone_table RUN ... [--phone-python PATH]

Of runs that `transbeam export CONFIG --target phone` has exported, one row for each
variant. Losses and agreement are those that the export found; times are measured anew,
so that files are asked on the same machine one after another. `PATH` is the Python of
an environment with mediapipe and litert-lm-api; it is asked about validation texts,
where the run has files for it.
"""

import argparse
import json
import subprocess
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bench.pairs import heading, row  # noqa: E402
from transbeam.configs.loader.export_support import MEDIAPIPE_CLIENTS  # noqa: E402
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner  # noqa: E402
from transbeam.serving.base.trained_run import TrainedRun, load_trained  # noqa: E402
from transbeam.serving.parity.base.parity_texts import labelled_texts, written_texts  # noqa: E402
from transbeam.serving.phone.conversion.litert_lm_bundle import bundle_name  # noqa: E402
from transbeam.serving.phone.conversion.tflite_converter import file_name  # noqa: E402
from transbeam.serving.phone.mediapipe_tasks.mediapipe_models import (  # noqa: E402
    PREFIX as MEDIAPIPE,
)
from transbeam.serving.phone.report.variant_report import measure_latencies  # noqa: E402
from transbeam.serving.runtimes.tflite_generator import PhoneWriter  # noqa: E402
from transbeam.serving.signatures.generation.tflite_signatures import DECODE  # noqa: E402
from transbeam.serving.signatures.task_factory import make_signature_task  # noqa: E402

CLIENTS = Path(__file__).parents[1] / "tests/serving/phone"
TEXTS, NEW = 200, 16
# The cosine of two vectors that say the same.
ALIKE = 0.999
HEADS = (
    "run",
    "variant",
    "MB",
    "ms, 1 and 2 threads",
    "lost",
    "XNNPACK",
    "builtin kernels",
    "MediaPipe or LiteRT-LM",
)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="bench.phone_table", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--phone-python", type=Path)
    arguments = parser.parse_args()
    print(heading(*HEADS))
    for run in arguments.runs:
        trained = load_trained(run)
        stage = json.loads((run / "phone/stage.json").read_text())["result"]
        for variant in stage["tflite"]:
            cells = cells_of(run, trained, stage, variant, arguments.phone_python)
            print(row(run.name, variant, *cells), flush=True)


def cells_of(
    run: Path,
    trained: TrainedRun,
    stage: dict[str, Any],
    variant: str,
    python: Path | None,
) -> list[str]:
    """Returns the cells after the names of the run and the variant."""
    file = run / "phone" / Path(stage["tflite"][variant]["path"]).name
    signature, length = timed(trained)
    times = measure_latencies(file, signature, length)
    longest = [times[threads][max(times[threads])] for threads in sorted(times)]
    return [
        f"{file.stat().st_size / 1e6:.1f}",
        ", ".join(f"{each:.1f}" for each in longest),
        lost(stage, variant),
        agreement(stage["parity"], f"TFLite {variant}, XNNPACK"),
        agreement(stage["parity"], f"TFLite {variant}, builtin kernels"),
        client(run, trained, variant, file, python) if python else "",
    ]


def timed(trained: TrainedRun) -> tuple[str, int]:
    """Returns the timed call: a whole text, or one token of a generated text."""
    endpoints = make_signature_task(trained).phone_endpoints()
    if DECODE in endpoints:
        return DECODE, 1
    return next(iter(endpoints)), make_signature_task(trained).max_length


def lost(stage: dict[str, Any], variant: str) -> str:
    """Points of the task's own measure, or the share by which perplexity is higher."""
    for metric, scores in stage["scores"].items():
        loss = scores["keras"] - scores[variant]
        if metric == "perplexity":
            return f"{-loss / scores['keras']:+.2%} of {scores['keras']:.2f}"
        return f"{100 * loss:.2f} points of {metric} {scores['keras']:.4f}"
    return ""


def agreement(rows: list[dict[str, Any]], form: str) -> str:
    """The share of equal first choices if there is one, or else how far it is off."""
    found = {of["check"]: of["value"] for of in rows if of["form"] == form}
    shares = [value for check, value in found.items() if "share" in check]
    return f"{min(shares):.3f} equal" if shares else f"{max(found.values()):.1g} off"


def client(
    run: Path, trained: TrainedRun, variant: str, file: Path, python: Path
) -> str:
    """Compares another runtime with Keras on validation texts, if it has a file."""
    bundle = run / "phone" / bundle_name(variant)
    packed = run / "phone" / file_name(variant, MEDIAPIPE)
    if bundle.exists():
        return of_litert_lm(run, trained, file, bundle, python)
    if packed.exists():
        return of_mediapipe(run, trained, packed, python)
    return ""


def of_mediapipe(run: Path, trained: TrainedRun, packed: Path, python: Path) -> str:
    """Share of equal first labels, or the similarity of vectors."""
    name = MEDIAPIPE_CLIENTS[trained.config.objective.kind]
    texts, expected = keras_says(run, name)
    question = {"client": name, "file": str(packed), "texts": texts}
    answers = asked([python, CLIENTS / "mediapipe_client.py"], question)
    if name == "TextClassifier":
        found = [max(each, key=each.get) for each in answers]
        same = np.mean(np.array(found) == expected)
        return f"MediaPipe {same:.3f} equal of {len(texts)}"
    theirs = np.array(answers)
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (expected * theirs).sum(axis=1) / norms
    alike = np.mean(cosines > ALIKE)
    least, middle = cosines.min(), np.median(cosines)
    return (
        f"MediaPipe, cosine above {ALIKE} for {alike:.3f} of {len(texts)}, "
        f"median {middle:.4f}, least {least:.3f}"
    )


@cache
def keras_says(run: Path, client: str) -> tuple[list[str], np.ndarray]:
    """Texts, and the label or the vector of each."""
    trained = load_trained(run)
    texts = [text for text, *_ in labelled_texts(trained, run, TEXTS)]
    texts = [text for text in texts if text and "\0" not in text]
    endpoints = make_signature_task(trained).endpoints()
    if client == "TextClassifier":
        labels = endpoints["serving_default"].function(tf.constant(texts))["label"]
        return texts, np.array([label.decode() for label in np.asarray(labels)])
    return texts, np.asarray(
        endpoints["embed"].function(tf.constant(texts))["embedding"]
    )


def of_litert_lm(
    run: Path, trained: TrainedRun, file: Path, bundle: Path, python: Path
) -> str:
    """Counts texts equal to those of our own loop with the plain file."""
    writer, special = PhoneWriter(TFLiteRunner(file)), trained.tokenizer.special
    ends = [] if special.end is None else [special.end]
    begins = [] if special.begin in (None, special.end) else [special.begin]
    room = writer.slots - NEW
    questions = []
    for text, *_ in islice(written_texts(trained, run, TEXTS), TEXTS):
        ids = [*begins, *trained.tokenizer.tokenize([text]).to_list()[0]]
        if 0 < len(ids) < room:
            new = writer.write(ids, NEW, stop_token_ids=ends).token_ids
            written = [int(token) for token in new if token not in ends]
            question = {"prompt": text, "written": written, "max_new_tokens": NEW}
            questions.append(question)
    answers = asked([python, CLIENTS / "litert_lm_client.py", bundle], questions)
    same = sum(each["text"] == each["written"] for each in answers)
    return f"LiteRT-LM {same} of {len(answers)} texts equal"


def asked(command: list[object], question: Any) -> Any:
    done = subprocess.run(
        [str(word) for word in command],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
