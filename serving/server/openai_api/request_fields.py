"""Reads the members of a request's JSON object by name and type."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transbeam.serving.server.openai_api.openai_errors import bad_field, unsupported
from transbeam.serving.server.protocol.json_text import text_bytes

# The largest id of a token that a signature can take.
_LARGEST_ID = 2**31 - 1


class RequestFields:
    """The members of a JSON object; null counts as left out, as in OpenAI's API.

    Args:
        members: The object.

    Example:
    >>> fields = RequestFields({"n": 2, "stream": None})
    >>> fields.integer("n", 1, 128), fields.flag("stream")
    (2, False)
    >>> fields.number("n", 0, 1)
    Traceback (most recent call last):
    OpenAIRequestError: INVALID_ARGUMENT: n: expected a number from 0 to 1
    """

    def __init__(self, members: Mapping[str, Any]):
        self._members = {k: value for k, value in members.items() if value is not None}

    def value(self, name: str) -> Any:
        """Returns a member as it is; None if it is left out."""
        return self._members.get(name)

    def text(self, name: str) -> str:
        """Returns a member that must be a string.

        Raises:
            OpenAIRequestError: It is left out, or something else.
        """
        value = self.value(name)
        if not isinstance(value, str):
            raise bad_field(name, "a text")
        return value

    def flag(self, name: str) -> bool:
        """Returns a member that is true or false; false if it is left out."""
        value = self.value(name)
        if not isinstance(value, bool | None):
            raise bad_field(name, "true or false")
        return bool(value)

    def integer(self, name: str, lowest: int, highest: int | None = None) -> int | None:
        """Returns a member that is a whole number in a range; None if left out."""
        value = self.value(name)
        if value is None:
            return None
        if type(value) is float and value.is_integer():
            value = int(value)
        top = _LARGEST_ID if highest is None else highest
        if type(value) is not int or not lowest <= value <= top:
            end = "" if highest is None else f" to {highest}"
            raise bad_field(name, f"a whole number from {lowest}{end}")
        return value

    def number(self, name: str, lowest: float, highest: float) -> float | None:
        """Returns a member that is a number in a range; None if left out."""
        value = self.value(name)
        if value is None:
            return None
        # A flag is an int, too, and comparisons with NaN are false.
        if type(value) not in (int, float) or not lowest <= value <= highest:
            raise bad_field(name, f"a number from {lowest:g} to {highest:g}")
        return float(value)

    def texts(self, name: str, most: int) -> tuple[bytes, ...]:
        """Returns a member that is a string or a list of strings, in UTF-8."""
        value = self.value(name)
        values = [] if value is None else value
        values = [values] if isinstance(values, str) else values
        fits = isinstance(values, list) and len(values) <= most
        if not fits or not all(isinstance(text, str) for text in values):
            raise bad_field(name, f"a text, or a list of at most {most} texts")
        return tuple(map(text_bytes, values))

    def refuse(self, neutral: Mapping[str, Sequence[Any]], reason: str) -> None:
        """Refuses members that would change the output.

        Args:
            neutral: By member, values that change nothing.
            reason: The reason for the error message.

        Raises:
            OpenAIRequestError: A member has another value.
        """
        for name, values in neutral.items():
            value = self.value(name)
            if value is not None and value not in values:
                raise unsupported(name, reason)


def read_prompts(value: Any, name: str) -> list[str | list[int]]:
    """Reads a string, strings, token ids, or lists of token ids.

    Args:
        value: The JSON value.
        name: Name of the field, for error messages.

    Returns:
        A string or a list of ids for each prompt.

    Raises:
        OpenAIRequestError: The value is something else, or is empty.

    Example:
    >>> read_prompts("a", "prompt"), read_prompts([5, 6], "prompt")
    (['a'], [[5, 6]])
    >>> read_prompts([[5], [6, 7]], "prompt")
    [[5], [6, 7]]
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(each, str) for each in value):
            return value
        if _are_ids(value):
            return [value]
        if all(_are_ids(each) for each in value):
            return value
    raise bad_field(
        name, "a text, a list of texts, a list of token ids, or a list of such lists"
    )


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_checked(value))


def _checked(values: list[Any]) -> Iterator[bool]:
    return (type(each) is int and 0 <= each <= _LARGEST_ID for each in values)
