"""Command lines are read as the dataclasses that describe them."""

import argparse
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from transbeam.__main__ import ROOMS
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import ArgumentGroup, argument, parse

ONE_OF_THESE = ArgumentGroup()
LIMITS = ArgumentGroup("limits", "Beyond them it stops.")


@dataclass(frozen=True, kw_only=True)
class ReadArguments:
    """A command line with an argument of each form."""

    folder: Path = argument("FOLDER", "where it is")
    files: tuple[Path, ...] = argument("FILE", "what is read", default=())
    name: str = argument("--name NAME", "its name", required=True)
    kind: Literal["a", "b"] = argument("--kind {a,b}", "one of two", default="a")
    notes: tuple[str, ...] = argument("--note TEXT", "many", default=())
    sizes: tuple[int, ...] | None = argument("--sizes N", "several", nargs="+")
    share: float = argument("--share X", "any number", default=0.5, type=float)
    short: bool = argument("--short", "not long", group=ONE_OF_THESE)
    long: bool = argument("--long", "not short", group=ONE_OF_THESE)
    most: int = argument("--most N", "at most", default=lambda: 9, group=LIMITS)
    rest: tuple[str, ...] = argument("--", "handed on")


def read(*argv: str) -> ReadArguments:
    return parse(argparse.ArgumentParser(prog="read"), ReadArguments, argv)


def test_what_is_left_out_has_the_defaults_of_the_dataclass() -> None:
    assert read("a", "--name", "x") == ReadArguments(folder=Path("a"), name="x")


def test_every_form_is_read() -> None:
    line = (
        "a --note 1 b --name x --kind b --note 2 c --sizes 3 4 --share 2.5 --short "
        "--most 7 -- --name y"
    )
    assert read(*line.split()) == ReadArguments(
        folder=Path("a"),
        files=(Path("b"), Path("c")),
        name="x",
        kind="b",
        notes=("1", "2"),
        sizes=(3, 4),
        share=2.5,
        short=True,
        most=7,
        rest=("--name", "y"),
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--name x", "the following arguments are required: FOLDER"),
        ("a", "the following arguments are required: --name"),
        ("a --name x --short --long", "argument --long: not allowed with argument "),
        ("a --name x --kind c", "argument --kind: invalid choice: 'c'"),
        ("a --name x --most 0", "argument --most: 0 is less than 1"),
        ("a --name x --sizes 1 y", "argument --sizes: 'y' is not a whole number"),
    ],
)
def test_mistakes_end_with_exit_code_2(line: str, told: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*line.split())
    assert ended.value.code == 2
    assert f"read: error: {told}" in capsys.readouterr().err


def test_paths_are_of_this_machine() -> None:
    with pytest.raises(ConfigError, match="s3://x"):
        read("s3://x", "--name", "x")


def test_groups_are_parts_of_the_help(capsys) -> None:
    with pytest.raises(SystemExit):
        read("--help")
    shown = capsys.readouterr().out
    assert "\nlimits:\n  Beyond them it stops.\n\n  --most N" in shown
    assert "[--short | --long]" in shown


@pytest.mark.parametrize("room", sorted(set(ROOMS.values())))
def test_every_room_describes_its_commands(room: str) -> None:
    commands = importlib.import_module(f"transbeam.{room}.__main__").COMMANDS
    assert [command.name for command in commands] == [
        command for command, place in ROOMS.items() if place == room
    ]
