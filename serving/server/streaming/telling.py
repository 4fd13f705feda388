"""What can be told of a text that is not whole yet."""

from collections.abc import Sequence

_STAND_IN = "\ufffd"


class Telling:
    """Cuts a growing text into parts that stay as they are.

    A part never ends amid a character, and none is told that may turn out to belong to
    a string at which the text is to end. All parts put together are the whole text.

    Args:
        stops: Strings at which the text ends, before the first of them.

    Attributes:
        text: All that was told.
        is_stopped: Whether one of the strings has come.

    Example:
    >>> telling = Telling([b"END"])
    >>> [telling.tell(said) for said in (b"to t", b"to the E", b"to the E.")]
    ['to t', 'he ', 'E.']
    >>> telling.tell(b"to the E. END of it"), telling.is_stopped
    (' ', True)
    """

    def __init__(self, stops: Sequence[bytes] = ()):
        self._stops = [stop for stop in stops if stop]
        self.text = ""
        self.is_stopped = False

    def tell(self, said: bytes, *, ended: bool = False) -> str:
        """The part that is new.

        Args:
            said: The text so far, UTF-8 that may end amid a character.
            ended: Whether it is the whole of it.
        """
        places = [said.find(stop) for stop in self._stops if stop in said]
        if places:
            said, self.is_stopped = said[: min(places)], True
        if not (ended or self.is_stopped):
            said = said[: len(said) - self._held_back(said)]
        text = said.decode("utf-8", "replace")
        if not (ended or self.is_stopped):
            # It may stand for the first bytes of a character.
            text = text.rstrip(_STAND_IN)
        new = text.removeprefix(self.text) if text.startswith(self.text) else ""
        self.text += new
        return new

    def _held_back(self, said: bytes) -> int:
        """Bytes at the end with which one of the strings may begin."""
        return max(
            (
                length
                for stop in self._stops
                for length in range(1, len(stop))
                if said.endswith(stop[:length])
            ),
            default=0,
        )
