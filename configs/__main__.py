"""`transbeam explain`: the keys of a configuration."""

import argparse
import json
from collections.abc import Sequence

from transbeam.configs.cli.arguments import run_main
from transbeam.configs.loader.explain import explain, explain_json


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `explain [KEY]`."""
    return run_main(_main, argv)


def _main(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    return arguments.function(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="transbeam", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

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


def _explain(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps(explain_json(arguments.key), indent=2))
    else:
        print(explain(arguments.key))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
