"""`transbeam loadtest`: arguments, execution and output files."""

import argparse
import csv
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transbeam.configs.base.atomic_files import write_atomically, write_json
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.commands import Command
from transbeam.configs.cli.console import Console
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.base.credentials import read_token

if TYPE_CHECKING:  # they import numpy, which `--help` does not need
    from transbeam.serving.loadtest.load_loops import Sample, SendRequest
    from transbeam.serving.loadtest.summary import LoadStage


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


@dataclass(frozen=True, kw_only=True)
class LoadtestArguments:
    """Arguments of `transbeam loadtest`."""

    server: str = argument("URL", "http://…, or grpc://HOST:PORT")
    name: str = argument("--name NAME", "the model's name on the server", required=True)
    signature: str = argument(
        "--signature SIGNATURE",
        "the signature to call; serving_default by default",
        default="serving_default",
    )
    texts: tuple[str, ...] = argument(
        "--text TEXT",
        "a text to send, for signatures with a text input; repeatable: the texts are "
        "sent in turn",
        default=(),
    )
    input: Path | None = argument("--input FILE", "file of texts, one per line")
    others: tuple[str, ...] = argument(
        "--with NAME=VALUE",
        "another input, the same for each row; repeatable",
        default=(),
    )
    rows: int = argument("--rows N", "texts per request; 1 by default", default=1)
    clients: tuple[int, ...] = argument(
        "--clients N",
        "number of concurrent clients, one stage for each number; 1 8 32 by default",
        default=(1, 8, 32),
        nargs="+",
    )
    rate: tuple[float, ...] | None = argument(
        "--rate R",
        "requests per second, one stage for each rate; instead of --clients",
        type=_positive,
        nargs="+",
    )
    seconds: float = argument(
        "--seconds S",
        "duration of a stage; 10 by default",
        default=10.0,
        type=_positive,
    )
    warm_up: float = argument(
        "--warm-up S",
        "seconds of the first load before the first stage, not measured; 2 by default",
        default=2.0,
        type=_positive,
    )
    token_file: Path | None = argument(
        "--token-file FILE", "file with the access token that the server requires"
    )
    certificate: Path | None = argument(
        "--certificate FILE",
        "PEM file of the authority that signed the server's certificate",
    )
    output: Path | None = argument(
        "--output DIR", "folder for report.json, requests.csv and latency.png"
    )
    quiet: bool = argument("--quiet", "print only the table")
    json: bool = argument("--json", "print one JSON object")


def loadtest(arguments: LoadtestArguments) -> dict[str, Any]:
    """Runs `transbeam loadtest`.

    Raises:
        UserError: There is no input, or no server responds.
    """
    console = Console(quiet=arguments.quiet, json=arguments.json)
    texts = _texts(arguments)
    token = read_token(arguments.token_file)
    if arguments.server.startswith("grpc"):
        quiet_import("tensorflow")
    from transbeam.serving.client.connect import connect
    from transbeam.serving.loadtest.request_source import request_sender
    from transbeam.serving.loadtest.summary import table

    with connect(
        arguments.server,
        arguments.name,
        token=token,
        certificate=arguments.certificate,
        retry=False,
    ) as client:
        send = request_sender(
            client,
            arguments.signature,
            texts,
            arguments.others,
            rows=arguments.rows,
        )
        send(0)  # fails early if requests are rejected
        stages, samples = _stages(arguments, send, token, console)
    console.show(table(stages))
    if arguments.output:
        _leave(arguments.output, arguments, stages, samples)
        console.result(
            f"report.json, requests.csv and latency.png in {arguments.output}"
        )
    return {"stages": list(map(asdict, stages))}


LOADTEST = Command(
    name="loadtest",
    run=loadtest,
    summary="measure the latency and throughput of a server",
    description="""\
Sends concurrent requests to a model server, Transbeam's or TF Serving's, and reports
percentiles of the latency from the time a request was due, responses per second,
errors, and the server's own metrics of its queue, its batches and its memory.

  transbeam loadtest http://localhost:8501 --name demo --text 'It is a [MASK].'
  transbeam loadtest grpc://localhost:8500 --name demo --clients 1 8 --input texts.txt
  transbeam loadtest http://localhost:8501 --name demo --rate 50 100 --text 'A [MASK].'
  transbeam loadtest http://localhost:8501 --name pairs --text A. --with second_text=B.

By default, each client sends its next request when it has the response (a closed
loop). With --rate, requests arrive at random times at a fixed mean rate (an open loop).
""",
)


def _stages(
    arguments: LoadtestArguments,
    send: "SendRequest",
    token: str | None,
    console: Console,
) -> "tuple[list[LoadStage], dict[str, list[Sample]]]":
    from transbeam.serving.loadtest.load_loops import closed_loop, open_loop
    from transbeam.serving.loadtest.server_metrics import read_counts
    from transbeam.serving.loadtest.summary import summarize

    loads: list[tuple[str, Callable[[float], list[Sample]]]]
    if arguments.rate:
        loads = [
            (f"{rate:g}/s", lambda seconds, rate=rate: open_loop(send, rate, seconds))
            for rate in arguments.rate
        ]
    else:
        loads = [
            (f"{count} clients", lambda seconds, n=count: closed_loop(send, n, seconds))
            for count in arguments.clients
        ]
    source = (arguments.server, arguments.name, token, arguments.certificate)
    console.say(f"warming up for {arguments.warm_up:g} s")
    loads[0][1](arguments.warm_up)
    stages, samples = [], {}
    for load, run in loads:
        console.say(f"{load} for {arguments.seconds:g} s")
        before = read_counts(*source)
        began = time.perf_counter()
        samples[load] = run(arguments.seconds)
        seconds = time.perf_counter() - began
        after = read_counts(*source)
        stages.append(summarize(load, samples[load], seconds, before, after))
    return stages, samples


def _texts(arguments: LoadtestArguments) -> list[str]:
    texts: list[Any] = list(arguments.texts)
    if arguments.input:
        from transbeam.serving.predict.batch_prediction import read_texts

        texts += [text for text, _ in read_texts(arguments.input)]
    if not texts:
        raise ConfigError("there is no text to ask about: give --text or --input")
    return texts


def _leave(
    folder: Path,
    arguments: LoadtestArguments,
    stages: "Sequence[LoadStage]",
    samples: "dict[str, list[Sample]]",
) -> None:
    from transbeam.serving.loadtest.plot import plot

    folder.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("texts", "token_file")
    }
    report = {"arguments": given, "stages": list(map(asdict, stages))}
    write_json(folder / "report.json", report)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["load", "due", "seconds", "error"])
    writer.writerows(
        [load, f"{sample.due:.6f}", f"{sample.seconds:.6f}", sample.error]
        for load, requests in samples.items()
        for sample in requests
    )
    write_atomically(folder / "requests.csv", text.getvalue())
    plot(stages, folder / "latency.png", f"{arguments.name} at {arguments.server}")
