"""`transbeam predict`: arguments, choice of the client, and output."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import ArgumentGroup, argument
from transbeam.configs.cli.arguments import (
    Invocation,
    OptionalRunArguments,
    read_invocation,
)
from transbeam.configs.cli.commands import Command
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.schema.export import example_texts
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.serving.base.credentials import read_token

if TYPE_CHECKING:  # it imports numpy, which `--help` does not need
    from transbeam.serving.client.interface import Client, RemoteClient

_OTHERS = ArgumentGroup("another model than the run's export")


@dataclass(frozen=True, kw_only=True)
class PredictArguments(OptionalRunArguments):
    """Arguments of `transbeam predict`."""

    texts: tuple[str, ...] = argument(
        "--text TEXT",
        "a text (with a [MASK] for a masked language model); repeatable; "
        "export.examples of CONFIG by default",
        default=(),
    )
    second_texts: tuple[str, ...] = argument(
        "--second-text TEXT",
        "the second text of a pair; once for each --text",
        default=(),
    )
    messages: tuple[str, ...] = argument(
        "--message TEXT",
        "a user's message, for a model with a chat template; repeatable, each begins a "
        "conversation",
        default=(),
    )
    iterations: int | None = argument(
        "--iterations N",
        "for a masked language model: fill all [MASK]s of a text together, in N "
        "iterations (mask-predict), instead of each alone",
    )
    images: tuple[Path, ...] = argument(
        "--image PATH",
        "a JPEG or PNG file, for an image model; repeatable",
        default=(),
    )
    input: Path | None = argument(
        "--input FILE",
        'file of texts or of paths of images, one per line; or .jsonl with {"text": '
        '..., "second_text": ...} or {"image": ...}',
    )
    output: Path | None = argument("--output FILE", "file for the predictions, .jsonl")
    model: Path | None = argument(
        "--model DIR",
        "another SavedModel: its version folder or the folder above",
        group=_OTHERS,
    )
    server: str | None = argument(
        "--server URL",
        "http://HOST:PORT for REST, grpc://HOST:PORT; https and grpcs with TLS",
        group=_OTHERS,
    )
    name: str | None = argument(
        "--name NAME",
        "the model's name on the server; CONFIG's name by default",
        group=_OTHERS,
    )
    token_file: Path | None = argument(
        "--token-file FILE",
        "file with the access token that the server requires",
        group=_OTHERS,
    )
    certificate: Path | None = argument(
        "--certificate FILE",
        "PEM file of the authority that signed the server's certificate",
        group=_OTHERS,
    )
    timeout: int = argument(
        "--timeout SECONDS",
        "time limit of a request with its retries; 30 by default",
        default=30,
        group=_OTHERS,
    )
    stream: bool = argument(
        "--stream",
        "print generated text as it arrives, from `transbeam serve`",
        group=_OTHERS,
    )


def predict_command(arguments: PredictArguments) -> dict[str, Any]:
    """Runs `transbeam predict`.

    Raises:
        UserError: No model or no input is given, or the request is rejected.
    """
    _check(arguments)
    invocation = read_invocation(arguments) if arguments.config else None
    given = [*arguments.texts, *arguments.images]
    inputs = read_texts(invocation, given, arguments.second_texts)
    if server := arguments.server:
        name = arguments.name or (invocation.config.name if invocation else "")
        result: dict[str, Any] = {"server": server, "model": name}
        with _remote_client(server, name, arguments) as remote:
            if arguments.stream:
                from transbeam.serving.predict.prediction import stream

                result["predictions"] = stream(remote, *inputs, arguments.console.part)
            else:
                result |= _answers(arguments, remote, inputs)
    else:
        model = arguments.model or exported_model(invocation)
        with local_client(model) as local:
            result = {"model": str(model)}
            if messages := arguments.messages:
                result["predictions"] = _replies(local, model, messages, arguments)
            else:
                result |= _answers(arguments, local, inputs)
    return result


PREDICT = Command(
    name="predict",
    run=predict_command,
    summary="predict texts or images with an exported model",
    description="""\
Predicts with an exported model. From raw text: the words for each [MASK], the class or
the number for a text or a pair, or a continuation. From images: the class of each. From
messages: the replies of a model of conversations.

The model is the SavedModel of a run (CONFIG), another SavedModel on this machine
(--model), or a model on a server, Transbeam's or TF Serving's (--server):

  transbeam predict configs/demo.yaml --text 'It is a [MASK].'
  transbeam predict --server http://localhost:8501 --name demo --text 'It is a [MASK].'
  transbeam predict configs/demo.yaml --input texts.txt --output answers.jsonl
  transbeam predict --server http://localhost:8501 --name lm --text 'The' --stream
""",
)


def _replies(
    client: "Client",
    model: Path,
    messages: Sequence[str],
    arguments: PredictArguments,
) -> list[dict[str, Any]]:
    """Generates and prints the replies to messages."""
    from transbeam.serving.predict.conversations import reply
    from transbeam.serving.predict.prediction import describe

    predictions = reply(client, model, messages)
    for prediction in predictions:
        arguments.console.say(describe(prediction))
    return predictions


def _answers(
    arguments: PredictArguments,
    client: "Client",
    inputs: tuple[Sequence[str | Path], Sequence[str]],
) -> dict[str, Any]:
    """Runs the model on the inputs; prints the predictions or writes them to a file."""
    file, output, console = arguments.input, arguments.output, arguments.console
    if not file or not output:
        rounds = arguments.iterations
        return {"predictions": answer(client, *inputs, console, iterations=rounds)}
    from transbeam.serving.predict import batch_prediction

    texts = batch_prediction.read_texts(file)
    if not texts:
        raise ConfigError(f"{file}: there is no text in it; expected one in each line")
    count = batch_prediction.answer_file(client, texts, output, console)
    console.result(f"{count:,} predictions in {output}")
    return {"answers": count, "output": str(output)}


def _check(arguments: PredictArguments) -> None:
    if not (arguments.config or arguments.model or arguments.server):
        raise ConfigError("no model is given: give CONFIG, --model DIR or --server URL")
    if arguments.model and arguments.server:
        raise ConfigError("give one of --model and --server")
    if arguments.server and not (arguments.name or arguments.config):
        raise ConfigError("give the model's name at the server with --name")
    if (arguments.input is None) != (arguments.output is None):
        raise ConfigError("--input FILE and --output FILE go together")
    if arguments.stream and (arguments.input or not arguments.server):
        raise ConfigError("--stream goes with --server and --text")
    if arguments.messages and arguments.server:
        raise ConfigError(
            "--message goes with a model on this machine. A server takes messages at "
            "/openai/v1/chat/completions"
        )
    if arguments.iterations is not None and (arguments.input or arguments.messages):
        raise ConfigError("--iterations goes with --text")
    inputs = arguments.input, arguments.texts, arguments.images, arguments.messages
    if sum(map(bool, inputs)) > 1:
        raise ConfigError("give one of --text, --message, --image and --input")


def exported_model(invocation: Invocation | None) -> Path:
    """Returns the path of a run's SavedModel.

    Args:
        invocation: The run.

    Raises:
        ArtifactError: Nothing is exported.
    """
    assert invocation is not None
    stage = Stage(invocation.run_folder, "export", invocation.command("export"))
    stage.load()
    return stage.path / "saved_model"


def local_client(model: Path) -> "Client":
    """Returns a client for a SavedModel on this machine.

    Raises:
        ArtifactError: There is none.
    """
    quiet_import("tensorflow", "tensorflow_text")
    from transbeam.serving.client.saved_model_client import LocalClient

    return LocalClient(model)


def _remote_client(
    server: str, name: str, arguments: PredictArguments
) -> "RemoteClient":
    from transbeam.serving.client.connect import connect

    if server.startswith("grpc"):
        quiet_import("tensorflow")
    return connect(
        server,
        name,
        token=read_token(arguments.token_file),
        certificate=arguments.certificate,
        timeout=float(arguments.timeout),
    )


def read_texts(
    invocation: Invocation | None,
    texts: Sequence[str | Path],
    second_texts: Sequence[str],
) -> tuple[Sequence[str | Path], Sequence[str]]:
    """Returns the given texts and second texts, or the run's examples."""
    if texts or second_texts or invocation is None:
        return texts, second_texts
    config = invocation.config
    examples = [
        example_texts(config.objective, example) for example in config.export.examples
    ]
    columns = [*zip(*examples, strict=True), (), ()]
    return columns[0], columns[1]


def answer(
    client: "Client",
    texts: Sequence[str | Path],
    second_texts: Sequence[str],
    console: Console,
    *,
    iterations: int | None = None,
) -> list[dict[str, Any]]:
    """Computes and prints predictions; see `transbeam.serving.predict.prediction`."""
    from transbeam.serving.predict.prediction import describe, predict

    predictions = predict(client, texts, second_texts, iterations=iterations)
    for prediction in predictions:
        console.say(describe(prediction))
    return predictions
