"""Loss of 4-bit files with two roundings: `python -m bench.rounding RUN ...`.

Of trained runs: by the gate's measure, in both ways that phones run a file, what is
lost with each weight rounded to the nearest step, as AI Edge Quantizer does, and with
weights rounded as our exports do.
"""

import argparse
import tempfile
import time
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

from bench.pairs import heading, row  # noqa: E402
from transbeam.configs.cli.console import Console  # noqa: E402
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner  # noqa: E402
from transbeam.serving.base.trained_run import load_trained  # noqa: E402
from transbeam.serving.parity.metrics.task_metrics import TaskMetric, make_task_metric  # noqa: E402
from transbeam.serving.phone.conversion.tflite_converter import convert  # noqa: E402
from transbeam.serving.phone.quantization.calibration import make_calibration  # noqa: E402
from transbeam.serving.phone.quantization.int4_weights import (  # noqa: E402
    NONE_ROUNDED,
    round_weights,
)
from transbeam.serving.phone.quantization.quantizer import IN_4_BITS, quantized  # noqa: E402
from transbeam.serving.signatures.task_factory import make_signature_task  # noqa: E402

HEADS = ("run", "variant", "tables", "nearest: lost", "ours: lost", "of float32's size")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    arguments = parser.parse_args()
    print(heading(*HEADS), flush=True)
    for run in arguments.runs:
        _rows(run)


def _rows(run: Path) -> None:
    trained = load_trained(run)
    metric = make_task_metric(trained, run)
    if metric is None:
        raise SystemExit(f"{run}: a task that the gate has no measure of")
    task = make_signature_task(trained)
    endpoints = task.phone_endpoints()
    with tempfile.TemporaryDirectory() as folder:
        content = convert(endpoints, task.max_length, Path(folder))
    began = time.perf_counter()
    asked = make_calibration(trained, run, endpoints, content, filled=False)
    rounded = round_weights(content, asked, Console())
    seconds = time.perf_counter() - began
    for variant in sorted(IN_4_BITS):
        for tables in ("int4", "int8"):
            made = [
                quantized(content, variant, tables=tables, rounded=of)
                for of in (NONE_ROUNDED, rounded)
            ]
            lost = [_lost(metric, each) for each in made]
            size = f"{len(made[1]) / len(content):.3f}"
            print(row(run.name, variant, tables, *lost, size), flush=True)
    print(f"\n{run.name}: rounded in {seconds:.0f} s\n", flush=True)


def _lost(metric: TaskMetric, content: bytes) -> str:
    """With XNNPACK and with builtin kernels; one where they are the same."""
    found = []
    for delegate in (True, False):
        value, _ = metric.measured(TFLiteRunner(content, delegate=delegate))
        if metric.name == "perplexity":
            found.append(f"{value / metric.of_keras - 1:+.2%}")
        else:
            found.append(f"{100 * (metric.of_keras - value):.2f} points")
    return ", ".join(dict.fromkeys(found))


if __name__ == "__main__":
    main()
