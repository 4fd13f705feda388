"""Reads the schema from its dataclasses, for the loader and for `transbeam explain`.

A *section* is a frozen dataclass. Its fields are the keys; those with a range are
declared with `transbeam.configs.base.fields.option`, and the string literal below a
field describes it. A key that holds a section may offer several *kinds* of it (a tagged
union): each is a dataclass whose `kind` field names it.
"""

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from transbeam.configs.base.attribute_docs import attribute_docs
from transbeam.configs.base.fields import REQUIRED, range_text


@dataclass(frozen=True)
class ConfigKey:
    """One key of a section, as its class declares it."""

    name: str
    annotation: Any
    default: Any
    minimum: float | None
    maximum: float | None
    section: type = field(compare=False)
    shared_doc: str | None = field(compare=False)

    @property
    def doc(self) -> str:
        """The key's description; empty if it has none."""
        return self.shared_doc or attribute_docs(self.section).get(self.name, "")

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def range_text(self) -> str:
        """The allowed range as text, such as `at least 1`; empty if unlimited."""
        return range_text(self.minimum, self.maximum)


@functools.cache
def section_keys(section: type) -> dict[str, ConfigKey]:
    """The keys of a section, in the order they are declared.

    Example:
    >>> from transbeam.configs.schema.block import LayerNormConfig
    >>> list(section_keys(LayerNormConfig))
    ['kind', 'placement', 'epsilon']
    """
    annotations = typing.get_type_hints(section)
    return {
        declared.name: ConfigKey(
            name=declared.name,
            annotation=annotations[declared.name],
            default=_default(declared),
            minimum=declared.metadata.get("minimum"),
            maximum=declared.metadata.get("maximum"),
            section=section,
            shared_doc=declared.metadata.get("doc"),
        )
        for declared in dataclasses.fields(section)
    }


@functools.cache
def written_keys(section: type) -> dict[str, ConfigKey]:
    """The keys that a configuration file may contain in a section.

    The keys of the section's `INHERITANCE` class, such as `preset`, precede its own
    keys.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> list(written_keys(EncoderConfig))[:3]
    ['preset', 'init_from', 'num_layers']
    """
    inheritance = getattr(section, "INHERITANCE", None)
    return {
        **(section_keys(inheritance) if inheritance else {}),
        **section_keys(section),
    }


def _default(declared: dataclasses.Field[Any]) -> Any:
    if declared.default_factory is not dataclasses.MISSING:
        return declared.default_factory()
    return declared.default


def split_optional(annotation: Any) -> tuple[Any, bool]:
    """Removes `None` from a union; also returns whether `None` was a member.

    Example:
    >>> split_optional(bool | None)
    (<class 'bool'>, True)
    """
    members = union_members(annotation)
    if types.NoneType not in members:
        return annotation, False
    rest = tuple(member for member in members if member is not types.NoneType)
    return typing.Union[rest], True  # noqa: UP007 (the members are a tuple)


def union_members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union type; for any other type, the type itself."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return typing.get_args(annotation)
    return (annotation,)


def section_kinds(annotation: Any) -> dict[str, type]:
    """The kinds of section a key may hold; empty for a key that holds a plain value.

    A section class without a `kind` is listed under the empty name.

    Example:
    >>> from transbeam.configs.schema.block import LayerNormConfig
    >>> from transbeam.configs.schema.block import LearnedPositionConfig
    >>> from transbeam.configs.schema.block import SinusoidalPositionConfig
    >>> list(section_kinds(LearnedPositionConfig | SinusoidalPositionConfig | None))
    ['learned', 'sinusoidal']
    >>> list(section_kinds(LayerNormConfig)), list(section_kinds(int))
    (['layer_norm'], [])
    """
    members = union_members(split_optional(annotation)[0])
    return {
        section_kind(member): member
        for member in members
        if isinstance(member, type) and dataclasses.is_dataclass(member)
    }


def section_kind(section: type) -> str:
    """The only allowed value of a section's `kind`; empty if it has no such key.

    A `kind` with several allowed values is an ordinary key.

    Example:
    >>> from transbeam.configs.schema.model import LayerNormConfig, PoolerConfig
    >>> section_kind(LayerNormConfig), section_kind(PoolerConfig)
    ('layer_norm', '')
    """
    kind = section_keys(section).get("kind")
    values = () if kind is None else typing.get_args(kind.annotation)
    return values[0] if len(values) == 1 else ""


def type_text(annotation: Any) -> str:
    """Describes a type, for error messages.

    Example:
    >>> from typing import Literal
    >>> type_text(int), type_text(tuple[str, ...]), type_text(Literal["pre", "post"])
    ('whole number', 'list of text', "'pre' or 'post'")
    >>> type_text(Mapping[str, str])
    'mapping from text to text'
    """
    annotation, optional = split_optional(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if section_kinds(annotation):
        text = "section"
    elif origin is tuple:
        text = f"list of {type_text(arguments[0])}"
    elif origin is Mapping:
        text = f"mapping from text to {type_text(arguments[1])}"
    elif origin is typing.Literal:
        text = " or ".join(map(repr, arguments))
    else:
        names = {
            bool: "true or false",
            int: "whole number",
            float: "number",
            str: "text",
        }
        text = names[annotation]
    return f"{text} or null" if optional else text


def walk(section: type, prefix: str = "") -> Iterator[tuple[str, ConfigKey]]:
    """Every nested key of a section with its dotted name, for all subsection kinds."""
    for key in written_keys(section).values():
        yield prefix + key.name, key
        for kind in section_kinds(key.annotation).values():
            yield from walk(kind, f"{prefix}{key.name}.")


def plain(value: Any) -> Any:
    """Converts a configuration, or a part of it, to plain JSON values.

    Example:
    >>> from transbeam.configs.schema.block import LayerNormConfig
    >>> plain(LayerNormConfig())
    {'kind': 'layer_norm', 'placement': 'post', 'epsilon': 1e-12}
    """
    if dataclasses.is_dataclass(value):
        names = [key.name for key in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [plain(element) for element in cast("tuple[Any, ...]", value)]
    return value


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar to a misspelled one, if any is close."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for the end of an error message; empty if no word is similar.

    Example:
    >>> did_you_mean("num_layer", ["num_layers", "hidden_dim"])
    " Did you mean 'num_layers'?"
    """
    near = nearest(word, known)
    return f" Did you mean {near!r}?" if near else ""
