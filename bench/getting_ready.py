"""Until a server is ready: `python -m bench.getting_ready VOCABULARY`.

A GPT-2 is exported as it is, and without what `serving.simplify` does; both are loaded
and warmed up in turns, each time by a process of its own. VOCABULARY is the folder with
GPT-2's; weights are at random.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from bench.pairs import heading, row, spread
from configs.quiet import quiet_import

quiet_import("tensorflow", "tensorflow_text")

from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

from bench.streaming import gpt2  # noqa: E402
from serving.savedmodel import write_saved_model  # noqa: E402
from serving.server.models.batching import BatchingParameters  # noqa: E402
from serving.server.models.loaded import Loaded  # noqa: E402
from serving.tasks import task_of  # noqa: E402
from serving.warmup import write_warm_up  # noqa: E402

LOAD = "import sys; from bench.getting_ready import load; load(sys.argv[1])"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = gpt2(arguments.vocabulary, folder / "tokenizer", arguments.layers)
        versions = {"simplified": folder / "simple/1", "as traced": folder / "plain/1"}
        write_saved_model(trained, versions["simplified"])
        with patch("serving.savedmodel.simplify"):
            write_saved_model(trained, versions["as traced"])
        for version in versions.values():
            write_warm_up(version, task_of(trained))
        seconds: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
        for _ in range(arguments.rounds):
            for name, version in versions.items():
                found = subprocess.run(
                    [sys.executable, "-c", LOAD, str(version)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                seconds[name].append(json.loads(found.stdout))
        print(heading("GPT-2", "nodes", "until ready", "of the processors", "ratio"))
        for name, version in versions.items():
            elapsed = [one["elapsed"] for one in seconds[name]]
            used = [one["used"] for one in seconds[name]]
            theirs = [one["used"] for one in seconds["as traced"]]
            ratios = [a / b for a, b in zip(used, theirs, strict=True)]
            cells = [spread(values, ".1f", " s") for values in (elapsed, used)]
            print(row(name, f"{nodes(version):,}", *cells, spread(ratios, ".2f", "x")))


def load(version: str) -> None:
    """Prints how many seconds it took, and how many of the processors' time."""
    began, used = time.perf_counter(), time.process_time()
    Loaded(Path(version), BatchingParameters(), 600.0, lambda timing: None)
    taken = {"elapsed": time.perf_counter() - began, "used": time.process_time() - used}
    print(json.dumps(taken))


def nodes(version: Path) -> int:
    """In all functions of a SavedModel."""
    content = (version / "saved_model.pb").read_bytes()
    (meta_graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    functions = meta_graph.graph_def.library.function
    return sum(len(function.node_def) for function in functions)


if __name__ == "__main__":
    main()
