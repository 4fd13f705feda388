"""What can be told of a text that is not whole yet."""

import codecs
from collections.abc import Sequence

from transbeam.serving.server.streaming.stop_string_matcher import StopString

_STAND_IN = "\ufffd"
# Bytes of a character that is not whole: some tokenizers write a stand-in for each.
_UNFINISHED = 3


class StopBuffer:
    """Cuts a growing text into parts that stay as they are.

    A part never ends amid a character, and none is told that may turn out to belong to
    a string at which the text is to end. Bytes that can become no character are told as
    U+FFFD at once. All parts put together are the whole text.

    Args:
        stops: Strings at which the text ends, before the first of them.

    Attributes:
        text: All that was told.
        is_stopped: Whether one of the strings has come.

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
        """The part that is new.

        Args:
            said: The text so far, UTF-8 that may end amid a character.
            ended: Whether it is the whole of it.
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
        # Not whole, it leaves out the bytes of a last character that may still come.
        text, read = codecs.utf_8_decode(said, "replace", whole)
        if not whole and read == len(said):
            text = text[: len(text) - _stand_ins(said)]
        new = text.removeprefix(self.text) if text.startswith(self.text) else ""
        self.text += new
        return new


def _stand_ins(said: bytes) -> int:
    r"""Written stand-ins at the end that may become a character.

    SentencePiece puts one for each byte of a character that is not whole.

    Example:
    >>> _stand_ins("a\ufffd\ufffd".encode()), _stand_ins(b"a\xff")
    (2, 0)
    """
    one = _STAND_IN.encode()
    count = 0
    while count < _UNFINISHED and said.endswith(one * (count + 1)):
        count += 1
    return count
