"""Events of a streamed generation, as a server sends and a client receives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StreamPart:
    """The text that one generated token adds.

    Attributes:
        text: The added text; may be empty, as one character can span several tokens,
            and text that may begin a stop string is withheld.
        token_id: The token.
    """

    text: str
    token_id: int


@dataclass(frozen=True)
class FinalEvent:
    """The final event of a streamed generation.

    Attributes:
        generated_text: The whole generated text: the concatenation of the texts of all
            `StreamPart`s.
        num_tokens: The number of generated tokens.
        finished: Whether generation ended at an end token or a stop string.
        truncated: Whether the prompt was cut.
    """

    generated_text: str
    num_tokens: int
    finished: bool
    truncated: bool
