"""`transbeam check` and `transbeam explain`: configurations, without running them."""

import argparse
import json
from collections.abc import Sequence

from configs.command import add_config_arguments, run_main
from configs.explain import explain, explain_json
from configs.load import load_run
from configs.run import RunConfig
from configs.schema import plain
from configs.tokenizer import PretrainedConfig


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `check CONFIG` or `explain [KEY]`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    return arguments.function(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    check = commands.add_parser(
        "check",
        help="read a configuration and say what it asks for",
        description="Reads a configuration, checks every key, says what it asks for.",
        allow_abbrev=False,
    )
    add_config_arguments(check)
    check.set_defaults(function=_check)

    explained = commands.add_parser(
        "explain",
        help="list the keys of a configuration",
        description="Lists the keys with their defaults, ranges and meanings.",
        allow_abbrev=False,
    )
    explained.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        default="",
        help="a part of it only, such as model.position",
    )
    explained.add_argument("--json", action="store_true", help="as one JSON object")
    explained.set_defaults(function=_explain)
    return parser


def _check(arguments: argparse.Namespace) -> int:
    config = load_run(arguments.config, arguments.overrides)
    if arguments.json:
        print(json.dumps(plain(config), indent=2))
    else:
        print(f"{arguments.config} is right: it describes the run {config.name!r}.")
        print(_summary(config))
    return 0


def _summary(config: RunConfig) -> str:
    data, model, training = config.data, config.model, config.training
    tokens = training.steps * training.batch_size * data.sequence_length
    held_out = data.validation_source
    rows = {
        "data": f"{data.source.kind} in records of {data.sequence_length:,} tokens"
        + (f", validated on {held_out.kind}" if held_out else ""),
        "tokenizer": _tokenizer(config),
        "objective": config.objective.kind,
        "model": f"{model.kind} of {model.num_layers} blocks, "
        f"{model.hidden_dim:,} wide, {model.attention.num_heads} heads",
        "training": f"{training.steps:,} steps of {training.batch_size:,} records: "
        f"{tokens:,} tokens",
        "export": ", ".join(["saved_model", *config.export.tflite]),
    }
    return "\n".join(f"  {name:<10} {text}" for name, text in rows.items())


def _tokenizer(config: RunConfig) -> str:
    tokenizer = config.tokenizer
    if isinstance(tokenizer, PretrainedConfig):
        return f"the one in {tokenizer.path}"
    return f"{tokenizer.kind}, {tokenizer.vocabulary_size:,} pieces"


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps(explain_json(arguments.key), indent=2))
    else:
        print(explain(arguments.key))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
