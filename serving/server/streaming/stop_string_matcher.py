"""Search for a stop string in a text that grows, each byte of it looked at once."""


class StopString:
    """Follows a growing text and tells where a string is in it, or may be beginning.

    The table of Knuth, Morris and Pratt, made as far as the text has come: a string of
    any length costs no more than the text that was written so far.

    Args:
        string: Not empty.

    Attributes:
        place: Where the string begins in the text, or None while it is not there.

    Example:
    >>> stop = StopString(b"END")
    >>> stop.read(b"to the E"), stop.pending, stop.place
    (None, 1, None)
    >>> stop.read(b"to the END.")
    >>> stop.place
    7

    References:
        - [Knuth, Morris, Pratt, 1977](https://doi.org/10.1137/0206024)
    """

    def __init__(self, string: bytes):
        self._string = string
        # Of the string's beginnings: how long the longest is that also ends it.
        self._borders = [0, 0]
        self._text = b""
        # After each byte of the text: how much of the string it ends with.
        self._matched = [0]
        self.place: int | None = None

    @property
    def pending(self) -> int:
        """Bytes at the text's end with which the string may be beginning."""
        return 0 if self.place is not None else self._matched[-1]

    def read(self, text: bytes) -> None:
        """Takes the text as it is now, until the string is found.

        Args:
            text: Goes on from the one before, of which the last bytes may have
                changed.
        """
        if self.place is not None:
            return
        known = self._text
        while not text.startswith(known):
            known = known[:-1]
        del self._matched[len(known) + 1 :]
        self._text = text
        for byte in text[len(known) :]:
            matched = self._after(self._matched[-1], byte)
            self._matched.append(matched)
            if matched == len(self._string):
                self.place = len(self._matched) - 1 - matched
                return

    def _after(self, matched: int, byte: int) -> int:
        """Bytes of the string that are there when one more byte has come."""
        while matched and self._string[matched] != byte:
            matched = self._border(matched)
        return matched + (self._string[matched] == byte)

    def _border(self, length: int) -> int:
        while len(self._borders) <= length:
            last = self._string[len(self._borders) - 1]
            self._borders.append(self._after(self._borders[-1], last))
        return self._borders[length]
