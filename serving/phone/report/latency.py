"""Measures the latency of a TFLite file by text length and number of threads."""

from pathlib import Path

from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.export.atomic_publish import median_ms
from transbeam.serving.phone.report.variant_report import Latencies

THREADS = (1, 2)
LENGTHS = (32, 128)


def latencies(file: Path, signature: str, max_length: int) -> Latencies:
    """Measures the milliseconds of a call.

    Args:
        file: The TFLite file.
        signature: The signature to call.
        max_length: The maximum number of tokens; 1 for inputs of fixed size.
    """
    lengths = sorted({min(length, max_length) for length in LENGTHS})
    found = {}
    for threads in THREADS:
        model = TFLiteRunner(file, num_threads=threads)
        found[threads] = {
            length: _milliseconds(model, signature, length) for length in lengths
        }
    return found


def _milliseconds(model: TFLiteRunner, signature: str, length: int) -> float:
    inputs = model.ones(signature, length)
    return median_ms(lambda: model.run(signature, **inputs))
