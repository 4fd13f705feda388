"""Command-line arguments, described by the fields of a dataclass."""

import argparse
import typing
from collections.abc import Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

from transbeam.configs.base.local_paths import local_path
from transbeam.configs.base.reflection import split_optional

_T = TypeVar("_T")
_REST = "--"


class ArgumentGroup(NamedTuple):
    """Arguments that are grouped in the help.

    Attributes:
        title: The group's heading; without a heading, the arguments are mutually
            exclusive.
        description: A sentence below the heading.
    """

    title: str | None = None
    description: str | None = None


def argument(
    form: str,
    help: str,
    *,
    default: Any = MISSING,
    group: ArgumentGroup | None = None,
    **options: Any,
) -> Any:
    """Declares a field that is read from the command line.

    Args:
        form: The notation of the usage message: `CONFIG`, `--run DIR`, `--quiet` for a
            switch, or `--` for all arguments after it.
        help: One sentence for `--help`.
        default: The value if the argument is left out, or a callable that returns it.
            An option without a default is None, a switch False; anything else is
            required.
        group: The group under which the help lists the argument.
        options: Arguments of `ArgumentParser.add_argument` that override those derived
            from the field's type. By default a path is local, an integer is at least 1,
            and an option with a tuple type may be repeated.

    Example:
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class TrimArguments:
    ...     old_folder: Path = argument("RUN", "a run, trained or imported")
    ...     max_size: int | None = argument("--max-size N", "how many pieces are left")
    >>> parse(argparse.ArgumentParser(), TrimArguments, ["runs/x", "--max-size", "9"])
    TrimArguments(old_folder=PosixPath('runs/x'), max_size=9)
    """
    if default is MISSING and form.startswith("--") and "required" not in options:
        default = () if form == _REST else None if " " in form else False
    metadata = {"form": form, "group": group, "options": {"help": help, **options}}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def parse(parser: argparse.ArgumentParser, kind: type[_T], argv: Sequence[str]) -> _T:
    """Reads a dataclass whose fields are declared by `argument`.

    Args:
        parser: Parses an argument for each field; exits if an argument is invalid.
        kind: The dataclass.
        argv: The command line, without the command.
    """
    ours, values = list(argv), dict[str, Any]()
    groups: dict[ArgumentGroup | None, Any] = {None: parser}
    annotations = typing.get_type_hints(kind)
    read = parser.parse_args
    for declared in fields(cast("Any", kind)):
        group: ArgumentGroup | None = declared.metadata["group"]
        if declared.metadata["form"] == _REST:
            place = ours.index(_REST) if _REST in ours else len(ours)
            ours, values[declared.name] = ours[:place], tuple(ours[place + 1 :])
            continue
        if group is not None and group not in groups:
            groups[group] = (
                parser.add_argument_group(*group)
                if group.title
                else parser.add_mutually_exclusive_group()
            )
        name, options = _as_argparse(declared, annotations[declared.name])
        groups[group].add_argument(name, **options)
        if options.get("nargs") == "*":  # files and options may stand in any order
            read = parser.parse_intermixed_args
    for name, value in vars(read(ours)).items():
        is_list = isinstance(value, list)
        values[name] = tuple(cast("list[Any]", value)) if is_list else value
    return kind(**values)


def _as_argparse(declared: Field[Any], annotation: Any) -> tuple[str, dict[str, Any]]:
    """Returns a field's arguments of `ArgumentParser.add_argument`."""
    form, given = declared.metadata["form"], declared.metadata["options"]
    kind, _ = split_optional(annotation)
    name, options = declared.name, dict[str, Any]()
    if form.startswith("--"):
        name, _, form = form.partition(" ")
        # The dataclass has the defaults.
        options |= {"dest": declared.name, "default": argparse.SUPPRESS}
    elif declared.default is not MISSING:
        options |= {"nargs": "?", "default": declared.default}
    if kind is bool:
        return name, {**options, "action": "store_true", **given}
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
        if name == declared.name:
            options["nargs"] = "*"
        elif "nargs" not in given:
            options["action"] = "append"
    if get_origin(kind) is Literal:
        options["choices"] = get_args(kind)
    options["type"] = {Path: local_path, int: at_least_one}.get(kind)
    return name, {**options, "metavar": form, **given}


def at_least_one(text: str) -> int:
    """Reads a count.

    Raises:
        argparse.ArgumentTypeError: The text is not a whole number of at least 1.

    Example:
    >>> at_least_one("3")
    3
    """
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number
