"""Text templates with fields in braces, such as `summarize: {text}`."""

import string
from collections.abc import Mapping, Sequence
from functools import lru_cache

from transbeam.configs.base.errors import ConfigError


@lru_cache
def template_parts(template: str) -> tuple[tuple[str, str | None], ...]:
    """Splits a template into pairs: literal text, and the field after it or None.

    Example:
    >>> template_parts("sum: {text}!")
    (('sum: ', 'text'), ('!', None))

    Raises:
        ValueError: A brace is unbalanced; `{{` and `}}` are literal braces.
    """
    parts = string.Formatter().parse(template)
    return tuple(
        (plain, None if field is None else field + _decoration(form, conversion))
        for plain, field, form, conversion in parts
    )


def _decoration(form: str | None, conversion: str | None) -> str:
    """The conversion and format of a field such as `{text!r:>5}`, as written."""
    return (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")


def template_fields(key: str, template: str) -> list[str]:
    """The fields of a template, in order of occurrence.

    Args:
        key: The configuration key of the template.
        template: The text with fields in braces.

    Example:
    >>> template_fields("text", "{title}. {body}")
    ['title', 'body']

    Raises:
        ConfigError: A brace is unbalanced, or the template has no field.
    """
    try:
        fields = [field for _, field in template_parts(template) if field is not None]
    except ValueError as error:
        raise ConfigError(
            f"{key}={template!r}: {error}. A brace that is meant is written twice"
        ) from None
    if not fields:
        raise ConfigError(
            f"{key}={template!r} is the same for every document: it needs the name of "
            "a field in braces"
        )
    return fields


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Fills a template with the values of its fields.

    Example:
    >>> fill_template("mood: {text}", {"text": "so so"})
    'mood: so so'
    """
    return "".join(
        plain + ("" if field is None else values[field])
        for plain, field in template_parts(template)
    )


def edge_texts(template: str) -> tuple[str, str]:
    """Returns the words of a template before its first and after its last field.

    Example:
    >>> edge_texts("Read: {text} ({second_text}) In short:")
    ('Read: ', ') In short:')
    """
    parts = template_parts(template)
    fields = [number for number, (_, field) in enumerate(parts) if field is not None]
    before = "".join(plain for plain, _ in parts[: fields[0] + 1])
    return before, "".join(plain for plain, _ in parts[fields[-1] + 1 :])


def check_template(key: str, template: str, known: Sequence[str]) -> None:
    """Raises ConfigError if a template has none of the known fields."""
    for field in template_fields(key, template):
        if field not in known:
            raise ConfigError(
                f"{key}={template!r}: there is no field {{{field}}}; {key} may have "
                + ", ".join(f"{{{name}}}" for name in known)
            )
