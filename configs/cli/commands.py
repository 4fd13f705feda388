"""Declarations of commands and their options, from which parsers are built."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from transbeam.configs.cli.argument_parser import parse
from transbeam.configs.cli.console import Console


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of `transbeam`.

    Attributes:
        name: The command's name, as typed.
        run: The function that runs the command. Its parameter `arguments` is a
            dataclass; see `transbeam.configs.cli.argument_parser`. It returns the
            object that `--json` prints, or None if it has already printed its output.
        summary: One-line summary of the command, for a list of commands.
        description: A longer description for the command's own `--help`; a text of
            several lines is printed without rewrapping.
        epilog: Examples below the options.
    """

    name: str
    run: Callable[[Any], dict[str, Any] | None]
    summary: str
    description: str
    epilog: str | None = None

    @property
    def arguments(self) -> type[Any]:
        """The dataclass of the arguments."""
        return self.run.__annotations__["arguments"]


def run_command(
    about: str | None, commands: Sequence[Command], argv: Sequence[str]
) -> int:
    """Runs the command named by the first argument.

    Args:
        about: The description in the `--help` that lists all commands.
        commands: All of them.
        argv: The command's name and its arguments.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="transbeam", description=about)
    choices = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)
    known = {command.name: command for command in commands}
    for command in commands:
        choices.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter
            if "\n" in command.description
            else argparse.HelpFormatter,
            allow_abbrev=False,
        )
    command = known[parser.parse_args(argv[:1]).name]
    arguments = parse(choices.choices[command.name], command.arguments, argv[1:])
    result = command.run(arguments)
    if result is not None:
        Console(json=arguments.json).emit(result)
    return 0
