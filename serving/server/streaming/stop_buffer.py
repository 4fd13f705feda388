"""Emits safe increments of generated text; withholds partial UTF-8 and stop strings."""

import codecs
from collections.abc import Sequence

from transbeam.serving.server.streaming.stop_string_matcher import StopString

_REPLACEMENT = "\ufffd"
# Maximum number of incomplete bytes: some tokenizers decode each one as U+FFFD.
_UNFINISHED = 3


class StopBuffer:
    """Splits a growing text into parts that are final.

    A part never ends within a character, and bytes that may be the beginning of a stop
    string are withheld. Invalid bytes are emitted as U+FFFD at once. The concatenation
    of all emitted parts is the final text.

    Args:
        stops: Stop strings; the text ends before the first occurrence of any of them.

    Attributes:
        text: The text emitted so far.
        is_stopped: True if a stop string was found.

    Example:
    >>> buffer = StopBuffer([b"END"])
    >>> [buffer.feed(generated) for generated in (b"to t", b"to the E", b"to the E.")]
    ['to t', 'he ', 'E.']
    >>> buffer.feed(b"to the E. END of it"), buffer.is_stopped
    (' ', True)
    """

    def __init__(self, stops: Sequence[bytes] = ()):
        self._stops = [StopString(stop) for stop in stops if stop]
        self.text = ""
        self.is_stopped = False

    def feed(self, generated: bytes, *, ended: bool = False) -> str:
        """Returns the new part of the text that can be emitted.

        Args:
            generated: The text generated so far, as UTF-8 bytes that may end within a
                character.
            ended: True if the text is complete.
        """
        for stop in self._stops:
            stop.read(generated)
        offsets = [stop.offset for stop in self._stops if stop.offset is not None]
        if offsets:
            generated, self.is_stopped = generated[: min(offsets)], True
        is_final = ended or self.is_stopped
        if not is_final:
            pending = max((stop.pending for stop in self._stops), default=0)
            generated = generated[: len(generated) - pending]
        # Unless final, the decoder leaves out an incomplete character at the end.
        text, read = codecs.utf_8_decode(generated, "replace", is_final)
        if not is_final and read == len(generated):
            text = text[: len(text) - _replacements(generated)]
        new = text.removeprefix(self.text) if text.startswith(self.text) else ""
        self.text += new
        return new


def _replacements(generated: bytes) -> int:
    r"""Counts the trailing U+FFFD, which may be bytes of an incomplete character.

    SentencePiece decodes each byte of an incomplete character as U+FFFD.

    Example:
    >>> _replacements("a\ufffd\ufffd".encode()), _replacements(b"a\xff")
    (2, 0)
    """
    one = _REPLACEMENT.encode()
    return next(n for n in range(_UNFINISHED, -1, -1) if generated.endswith(one * n))
