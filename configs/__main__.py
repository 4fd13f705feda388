"""`transbeam check` and `transbeam explain`: configurations, without running them."""

import argparse
import json
from collections.abc import Sequence

from configs.abilities import check_export, check_tokenizer
from configs.command import add_config_arguments, run_main
from configs.console import Console
from configs.errors import ConfigError
from configs.explain import explain, explain_json
from configs.load import load_run
from configs.model import Model, Seq2SeqConfig
from configs.run import RunConfig
from configs.schema import plain
from configs.supervised import ImageClassificationConfig
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
        description="Reads a configuration, checks every key, says what it asks for, "
        "and warns of what this version cannot do with it.",
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
    config = load_run(arguments.config, arguments.overrides, with_model=True)
    console = Console(json=arguments.json)
    for told in _cannot(arguments):
        console.warn(told)
    if arguments.json:
        print(json.dumps(plain(config), indent=2))
    else:
        print(f"{arguments.config} is right: it describes the run {config.name!r}.")
        print(_summary(config))
    return 0


def _cannot(arguments: argparse.Namespace) -> list[str]:
    """What stands in the way of a stage: no mistake, for not every run takes all."""
    told: list[str] = []
    for rule in (check_tokenizer, check_export):
        try:
            load_run(arguments.config, arguments.overrides, rules=[rule])
        except ConfigError as error:
            told.append(str(error))
    return told


def _summary(config: RunConfig) -> str:
    data, training, objective = config.data, config.training, config.objective
    rows = {"data": _data(config), "tokenizer": _tokenizer(config)}
    records = training.steps * training.batch_size
    amount = f"{records * data.sequence_length:,} tokens"
    if isinstance(objective, ImageClassificationConfig):
        del rows["tokenizer"]
        amount = f"{records:,} images"
    rows |= {
        "objective": objective.kind,
        "model": _model(config.model),
        "training": f"{training.steps:,} steps of {training.batch_size:,} records: "
        f"{amount}",
        "export": ", ".join(["saved_model", *config.export.tflite]),
    }
    return "\n".join(f"  {name:<10} {text}" for name, text in rows.items())


def _data(config: RunConfig) -> str:
    data, objective = config.data, config.objective
    records = f"records of {data.sequence_length:,} tokens"
    if isinstance(objective, ImageClassificationConfig):
        records = f"records of {objective.image_size} × {objective.image_size} pixels"
    held_out = data.validation_source
    validated = f", validated on {held_out.kind}" if held_out else ""
    return f"{data.source.kind} in {records}{validated}"


def _model(model: Model) -> str:
    """Such as `decoder of 12 blocks, 768 wide, 12 heads; attention full, ...`."""
    blocks, attention = f"{model.num_layers}", model.attention
    kinds = attention.kind
    if isinstance(model, Seq2SeqConfig):
        blocks += f" and {model.decoder_layers}"
        if model.decoder_attention is not None:
            kinds += f" and {model.decoder_attention.kind}"
    heads = f"{attention.num_heads} heads"
    if attention.key_value_heads < attention.num_heads:
        heads += f" on {attention.key_value_heads} of keys and values"
    return (
        f"{model.kind} of {blocks} blocks, {model.hidden_dim:,} wide, {heads}; "
        f"attention {kinds}, position {model.position.kind}"
    )


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
