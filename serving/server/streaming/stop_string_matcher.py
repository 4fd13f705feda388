"""Incremental search for a stop string in a growing text."""


class StopString:
    """Finds the first occurrence of a string in a growing text.

    The search is the Knuth-Morris-Pratt algorithm with a lazily built failure table, so
    its time and memory are linear in the text read so far, even if the string is
    longer.

    Args:
        string: A string that is not empty.

    Attributes:
        offset: Offset of the string in the text; None until it is found.

    Example:
    >>> stop = StopString(b"END")
    >>> stop.read(b"to the E"), stop.pending, stop.offset
    (None, 1, None)
    >>> stop.read(b"to the END.")
    >>> stop.offset
    7

    References:
        - [Knuth, Morris, Pratt, 1977](https://doi.org/10.1137/0206024)
    """

    def __init__(self, string: bytes):
        self._string = string
        # KMP failure table: length of the longest proper border of each prefix.
        self._borders = [0, 0]
        self._text = b""
        # For each prefix of the text: length of the longest match at its end.
        self._matched = [0]
        self.offset: int | None = None

    @property
    def pending(self) -> int:
        """Number of bytes at the end of the text that match the string's beginning."""
        return 0 if self.offset is not None else self._matched[-1]

    def read(self, text: bytes) -> None:
        """Reads the current text, unless the string was already found.

        Args:
            text: The text of the previous call, whose last bytes may have changed, with
                new bytes appended.
        """
        if self.offset is not None:
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
                self.offset = len(self._matched) - 1 - matched
                return

    def _after(self, matched: int, byte: int) -> int:
        """Returns the length of the partial match after one more byte."""
        while matched and self._string[matched] != byte:
            matched = self._border(matched)
        return matched + (self._string[matched] == byte)

    def _border(self, length: int) -> int:
        while len(self._borders) <= length:
            last = self._string[len(self._borders) - 1]
            self._borders.append(self._after(self._borders[-1], last))
        return self._borders[length]
