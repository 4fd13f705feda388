"""A text that comes in parts, as a server sends it and a client gets it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamPart:
    """What one token added to a text.

    Attributes:
        text: May be empty: a character can have several tokens.
        token_id: The token.
    """

    text: str
    token_id: int


@dataclass(frozen=True)
class Whole:
    """A text that is over.

    Attributes:
        generated_text: All parts.
        num_tokens: How many there are.
        finished: Whether it came to an end by itself, or to one of its strings.
        truncated: Whether not all of the prompt was read.
    """

    generated_text: str
    num_tokens: int
    finished: bool
    truncated: bool
