"""A server's start, and what it answers then: `python -m bench.serving_start MODEL`.

A SavedModel is loaded and gets warm as in `transbeam serve`, in turns with the options
that TensorFlow's sessions have by themselves and with ours, which leave out optimizers
(`transbeam.serving.server.inference.servable`). Then both, in turns, are asked the last
request for each of SIGNATURES that the model brings along, and their answers are
compared. MODEL is the folder of a version.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from bench.pairs import heading, row, spread
from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf.config_pb2 import ConfigProto  # noqa: E402

from transbeam.serving.server.inference import servable  # noqa: E402
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters  # noqa: E402
from transbeam.serving.server.models.loaded_version import Loaded  # noqa: E402
from transbeam.serving.server.models.warmup_requests import read_warm_up  # noqa: E402

OPTIONS: dict[str, Callable[[], ConfigProto]] = {
    "TensorFlow's": ConfigProto,
    "ours": servable._options,
}
CALLS = 10


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--signatures", nargs="+", default=["serving_default"])
    arguments = parser.parse_args()
    last = {
        request[0]: request[1]
        for request in read_warm_up(arguments.model)
        if isinstance(request, tuple)
    }
    seconds: dict[str, list[float]] = {name: [] for name in OPTIONS}
    times: dict[str, dict[str, list[float]]] = {
        signature: {name: [] for name in OPTIONS} for signature in arguments.signatures
    }
    for _ in range(arguments.rounds):
        loaded = {}
        for name, options in OPTIONS.items():
            began = time.perf_counter()
            with mock.patch.object(servable, "_options", options):
                loaded[name] = Loaded(
                    arguments.model, BatchingParameters(), 600.0, lambda _: None
                )
            seconds[name].append(time.perf_counter() - began)
        for signature, found in times.items():
            answers = {}
            for name, model in loaded.items():
                began = time.perf_counter()
                for _ in range(CALLS):
                    answers[name] = model._run(signature, last[signature])
                found[name].append(1000 * (time.perf_counter() - began) / CALLS)
            require_equal(*answers.values())
        for model in loaded.values():
            model.close()
    print(heading("", *OPTIONS, "ratio"))
    print(line("ready after", seconds, ".1f", " s"))
    for signature, found in times.items():
        print(line(signature, found, ".2f", " ms"))
    print(f"\nPython {platform.python_version()}, tensorflow {tf.__version__}.")


def line(what: str, found: dict[str, list[float]], form: str, unit: str) -> str:
    """A row of the table."""
    theirs, ours = found.values()
    ratios = [one / other for one, other in zip(theirs, ours, strict=True)]
    return row(
        what,
        spread(theirs, form, unit),
        spread(ours, form, unit),
        spread(ratios, ".2f", "x"),
    )


def require_equal(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> None:
    """The same bits, or the one is not the other's answer."""
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, err_msg=name)


if __name__ == "__main__":
    main()
