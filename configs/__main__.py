"""`transbeam explain`: describes the keys of a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.arguments import run_main
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.loader.explain import explain, explain_json


@dataclass(frozen=True, kw_only=True)
class ExplainArguments:
    """Arguments of `transbeam explain`."""

    key: str = argument(
        "KEY", "show only this part, such as model.position", default=""
    )
    json: bool = argument("--json", "print one JSON object")


def _explain(arguments: ExplainArguments) -> dict[str, Any]:
    if not arguments.json:
        print(explain(arguments.key))
    return explain_json(arguments.key)


COMMANDS = (
    Command(
        name="explain",
        run=_explain,
        summary="list the keys of a configuration",
        description="Lists the keys with their defaults, ranges and meanings.",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `explain [KEY]`."""
    return run_main(partial(run_command, __doc__, COMMANDS), argv)


if __name__ == "__main__":
    raise SystemExit(main())
