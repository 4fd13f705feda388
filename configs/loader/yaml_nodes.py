"""Parses YAML text to nodes with file positions; keys are interpreted later.

PyYAML splits the text into events; this module builds the nodes, because a
configuration needs a smaller language than YAML 1.1: `6e-4` is a number, `no` is text
and not false, a duplicate key is an error, and there are no references, merges or
constructed objects.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from transbeam.configs.base.errors import ConfigError

# Far deeper than any configuration, and far below Python's recursion limit.
MAXIMUM_DEPTH = 30

_WHOLE = r"(?:0|[1-9][0-9]*(?:_[0-9]+)*)"
_INTEGER = re.compile(rf"[-+]?{_WHOLE}")
_NUMBER = re.compile(rf"[-+]?(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}

_QUOTES_HINT = "A text that starts with & or * or ! needs quotes."
# Parts of PyYAML's scanner messages, and advice for the user.
_HINTS = {
    "\\t": "Indent with spaces, not with tabs.",
    "mapping values are not allowed": "Is a line indented too far, or a text with "
    "': ' in it not quoted?",
    "expected <block end>": "Does the indentation match the lines above?",
    "scanning an alias": _QUOTES_HINT,
    "scanning an anchor": _QUOTES_HINT,
    "cannot start any token": "A text that begins with a special sign needs quotes.",
    "expected ',' or": "A [ or { is not closed.",
}


@dataclass(frozen=True)
class YamlScalar:
    """A single value; `where` is its key's `file:line`, or its `--set` override."""

    where: str
    text: str
    quoted: bool

    @property
    def value(self) -> bool | int | float | str | None:
        return self.text if self.quoted else resolve(self.text)


@dataclass(frozen=True)
class YamlList:
    """A list."""

    where: str
    nodes: tuple["Node", ...]


@dataclass(frozen=True)
class YamlSection:
    """A YAML mapping. The `where` of each value is the position of its key.

    `outdated` lists the section's keys from an extended file, if the extending file
    changed the section's `kind`; an outdated key that the new kind does not have is
    ignored.
    """

    where: str
    nodes: dict[str, "Node"]
    outdated: frozenset[str] = frozenset()


Node = YamlScalar | YamlList | YamlSection


def resolve(text: str) -> bool | int | float | str | None:
    """Resolves an unquoted scalar by the rules of YAML 1.2 plus `1_000`.

    Example:
    >>> [resolve(text) for text in ("6e-4", "1_000", "no", "true", "007")]
    [0.0006, 1000, 'no', True, '007']
    """
    if text in _WORDS:
        return _WORDS[text]
    # Python refuses to convert thousands of digits to an int: they are read as inf.
    if _INTEGER.fullmatch(text) and len(text) < 1000:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def is_blank(node: Node) -> bool:
    """Checks if a key has no value, as in `key:`."""
    return isinstance(node, YamlScalar) and node.text == "" and not node.quoted


def describe_node(node: Node) -> str:
    """Describes a node, as the text after "found" in an error message."""
    if isinstance(node, YamlSection):
        return "a section"
    if isinstance(node, YamlList):
        return "a list"
    shown = node.text if len(node.text) <= 60 else node.text[:57] + "..."
    if isinstance(node.value, str):
        return f"the text {shown!r}"
    if node.value is None:
        return shown or "nothing"
    return shown if isinstance(node.value, bool) else f"the number {shown}"


def complain(where: str, path: str, what: str) -> ConfigError:
    """`file:line: dotted.key: text`, the form of every configuration error."""
    end = "" if what.endswith((".", "?", "!")) else "."
    return ConfigError(": ".join(part for part in (where, path, what) if part) + end)


def compose(text: str, locate: Callable[[int], str], path: str = "") -> Node | None:
    """Reads one YAML document.

    Args:
        text: The document.
        locate: A function from a line number (from 1) to the description of a position.
        path: The dotted key that has the text as its value, for error messages.

    Returns:
        The root node; None if there are only blanks and comments.

    Raises:
        ConfigError: The text is not YAML, or uses a feature of YAML that is not
            supported.

    Example:
    >>> compose("steps: 100", "run.yaml:{}".format).nodes["steps"]
    YamlScalar(where='run.yaml:1', text='100', quoted=False)
    """
    events = _events(text, locate)
    events.popleft()  # the start of the stream
    if isinstance(events.popleft(), yaml.StreamEndEvent):
        return None
    root = _Composer(events, locate).node(path, where=None, depth=0)
    events.popleft()  # the end of the document
    if isinstance(events[0], yaml.DocumentStartEvent):
        where = locate(events[0].start_mark.line + 1)
        raise complain(where, "", "a second document (`---`); one is all there may be")
    return root


def _events(text: str, locate: Callable[[int], str]) -> deque[yaml.Event]:
    events: deque[yaml.Event] = deque()
    try:
        parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
        events.extend(parse(text, Loader=yaml.BaseLoader))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"U+{ord(text[error.position]):04X}"
        raise complain(locate(line), "", f"the character {code} is not text") from None
    except yaml.MarkedYAMLError as error:
        said = ", ".join(part for part in (error.context, error.problem) if part)
        # An unclosed bracket or quote is detected at the end of the file: name its
        # start.
        is_unclosed = "stream end" in said or "end of stream" in said
        mark = error.context_mark if is_unclosed else error.problem_mark
        line = mark.line + 1 if mark else 1
        hints = [hint for part, hint in _HINTS.items() if part in said]
        raise complain(
            locate(line), "", " ".join([f"not valid YAML: {said}.", *hints[:1]])
        ) from None
    except ValueError:  # PyYAML passes "\U99999999" to chr() unchecked
        line = events[-1].end_mark.line + 1
        raise complain(locate(line), "", "not valid YAML: no such character") from None
    return events


class _Composer:
    """Builds nodes from a queue of events, in order."""

    def __init__(self, events: deque[yaml.Event], locate: Callable[[int], str]):
        self._events = events
        self._locate = locate

    def node(self, path: str, where: str | None, depth: int) -> Node:
        event = self._events.popleft()
        where = where or self._locate(event.start_mark.line + 1)
        _refuse_references(event, where, path)
        if depth > MAXIMUM_DEPTH:
            raise complain(where, path, f"nested deeper than {MAXIMUM_DEPTH} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._items(path, where, depth)
        if isinstance(event, yaml.MappingStartEvent):
            return self._section(path, where, depth)
        assert isinstance(event, yaml.ScalarEvent)
        return self._scalar(event, where, path)

    def _items(self, path: str, where: str, depth: int) -> YamlList:
        nodes: list[Node] = []
        while not isinstance(self._events[0], yaml.SequenceEndEvent):
            nodes.append(self.node(f"{path}[{len(nodes)}]", None, depth + 1))
        self._events.popleft()
        return YamlList(where, tuple(nodes))

    def _section(self, path: str, where: str, depth: int) -> YamlSection:
        nodes: dict[str, Node] = {}
        while not isinstance(self._events[0], yaml.MappingEndEvent):
            key = self.node(path, None, depth + 1)
            if not isinstance(key, YamlScalar) or not isinstance(key.value, str):
                found = describe_node(key)
                raise complain(key.where, path, f"a key must be text, not {found}")
            dotted = f"{path}.{key.text}" if path else key.text
            if key.text == "<<" and not key.quoted:
                raise complain(key.where, path, "merge keys (<<) are not used here")
            if key.text in nodes:
                first = nodes[key.text].where
                raise complain(key.where, dotted, f"given twice, first at {first}")
            nodes[key.text] = self.node(dotted, key.where, depth + 1)
        self._events.popleft()
        return YamlSection(where, nodes)

    def _scalar(self, event: yaml.ScalarEvent, where: str, path: str) -> YamlScalar:
        # PyYAML accepts an escape such as "\ud800" or "\0", but no file could be
        # written or opened with it later.
        if re.search("[\0\ud800-\udfff]", event.value):
            raise complain(where, path, "a character that is not text")
        return YamlScalar(where, event.value, quoted=event.style is not None)


def _refuse_references(event: yaml.Event, where: str, path: str) -> None:
    if getattr(event, "anchor", None) is not None:
        what = "anchors and aliases (& and *) are not used here: write the value out"
        raise complain(where, path, f"{what}. {_QUOTES_HINT}")
    tag = getattr(event, "tag", None)
    if tag is not None:
        what = f"tags such as {tag} are not used here"
        raise complain(where, path, f"{what}. {_QUOTES_HINT}")


def read_text(path: str | Path) -> str:
    """The text of a YAML file.

    Raises:
        ConfigError: The file does not exist, or is not UTF-8.
    """
    try:
        # A byte order mark is no part of the text.
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise complain(str(path), "", "there is no such file") from None
    except IsADirectoryError:
        raise complain(str(path), "", "is a folder; a YAML file is needed") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"0x{error.object[error.start]:02x}"
        raise complain(
            f"{path}:{line}", "", f"byte {byte} is not UTF-8; save the file as UTF-8"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise complain(str(path), "", f"cannot be read: {reason}") from None
