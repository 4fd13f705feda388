"""Emits safe increments of generated text; withholds partial UTF-8 and stop strings."""

import codecs
from collections.abc import Sequence

from transbeam.serving.server.streaming.stop_string_matcher import StopString

_STAND_IN = "\ufffd"
# Maximum number of incomplete bytes: some tokenizers decode each one as U+FFFD.
_UNFINISHED = 3


class StopBuffer:
    """Splits a growing text into parts that are final.

    A part never ends within a character, and bytes that may be the beginning of a stop
    string are withheld. Invalid bytes are emitted as U+FFFD at once. The concatenation
    of all parts is the whole text.

    Args:
        stops: Stop strings; the text ends before the first occurrence of any of them.

    Attributes:
        text: The text emitted so far.
        is_stopped: True if a stop string was found.

    Example:
    >>> telling = StopBuffer([b"END"])
    >>> [telling.tell(said) for said in (b"to t", b"to the E", b"to the E.")]
    ['to t', 'he ', 'E.']
    >>> telling.tell(b"to the E. END of it"), telling.is_stopped
    (' ', True)
    """

    def __init__(self, stops: Sequence[bytes] = ()):
        self._stops = [StopString(stop) for stop in stops if stop]
        self.text = ""
        self.is_stopped = False

    def tell(self, said: bytes, *, ended: bool = False) -> str:
        """Returns the new part.

        Args:
            said: The whole text so far, UTF-8 that may end within a character.
            ended: True if the text is complete.
        """
        for stop in self._stops:
            stop.read(said)
        places = [stop.place for stop in self._stops if stop.place is not None]
        if places:
            said, self.is_stopped = said[: min(places)], True
        whole = ended or self.is_stopped
        if not whole:
            pending = max((stop.pending for stop in self._stops), default=0)
            said = said[: len(said) - pending]
        # Unless final, the decoder leaves out an incomplete character at the end.
        text, read = codecs.utf_8_decode(said, "replace", whole)
        if not whole and read == len(said):
            text = text[: len(text) - _stand_ins(said)]
        new = text.removeprefix(self.text) if text.startswith(self.text) else ""
        self.text += new
        return new


def _stand_ins(said: bytes) -> int:
    r"""Counts the U+FFFD at the end that may still become a character.

    SentencePiece decodes each byte of an incomplete character as U+FFFD.

    Example:
    >>> _stand_ins("a\ufffd\ufffd".encode()), _stand_ins(b"a\xff")
    (2, 0)
    """
    one = _STAND_IN.encode()
    return next(n for n in range(_UNFINISHED, -1, -1) if said.endswith(one * n))
