"""Events of a streamed generation, as a server sends and a client receives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamPart:
    """The text that one generated token adds.

    Attributes:
        text: May be empty: one character can span several tokens.
        token_id: The token.
    """

    text: str
    token_id: int


@dataclass(frozen=True)
class FinalEvent:
    """The final event of a streamed generation.

    Attributes:
        generated_text: The generated text: the concatenation of all parts.
        num_tokens: The number of generated tokens.
        finished: Whether generation ended at an end token or a stop string.
        truncated: Whether the prompt was cut.
    """

    generated_text: str
    num_tokens: int
    finished: bool
    truncated: bool
