"""The page of commands, from the help of each."""

import contextlib
import importlib
import io
import os
from collections.abc import Sequence
from unittest import mock

from transbeam import __main__ as command
from transbeam.configs.cli.commands import Command, run_command

PATH = "reference/commands.md"
COLUMNS = "88"

_INTRODUCTION = """\
# Commands

What `transbeam COMMAND --help` prints, command by command.

Commands that are given a configuration take a run's folder in its place, which means
the `run.yaml` in it, and `--set a.b=c`. Those that work in a run's folder take
`--run DIR`, `--quiet` and `--json`: one object on standard output, and everything else
on standard error. `python -m transbeam.pipeline data` and so on do the same.

| exit code | after |
|---|---|
| 0 | success |
| 1 | a bug, with a traceback |
| 2 | a mistake in what was given, or a full disk |
| 130 | Ctrl-C |

"""


def page() -> str:
    """Writes the page."""
    parts = [
        f"\n## transbeam {name} {{ #{name} }}\n\n{_fence(help_of(name))}"
        for name in ("run", *command.ROOMS)
    ]
    return "".join([_INTRODUCTION, _fence(command.HELP), *parts])


def help_of(name: str) -> str:
    """The help of a command, as it is printed.

    Raises:
        ValueError: It printed none.
    """
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": COLUMNS}),
        contextlib.redirect_stdout(printed),
        contextlib.suppress(SystemExit),
    ):
        # Not by `main`, which asks for Keras's backend before it reads arguments.
        run_command(None, _commands(name), [name, "--help"])
    if not printed.getvalue().startswith("usage: "):
        raise ValueError(f"transbeam {name} --help printed no usage")
    return printed.getvalue()


def _commands(name: str) -> Sequence[Command]:
    if name == "run":
        return (command.RUN,)
    return importlib.import_module(f"transbeam.{command.ROOMS[name]}.__main__").COMMANDS


def _fence(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"
