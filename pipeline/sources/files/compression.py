"""Decompresses files member by member; skips the damaged members of a file.

A gzip file is a series of members, a bzip2 or xz file of streams, a zstandard file of
frames; in this module, members, streams and frames are all called members. The content
of a member is released only when its checksum has been verified; bzip2 has a checksum
for each block of about 900 kB. Damaged members are skipped, and reading continues with
the next member that can be decompressed.

Only a limited amount of text is buffered until its checksum is verified. Further text
is released unverified: if the member is damaged, an unknown amount of the released text
may be wrong. The text of a member that is truncated by the end of the file is also
released unverified.
"""

import bz2
import io
import lzma
import re
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import zstandard

from transbeam.pipeline.documents.document import Damage

_BLOCK_BYTES = 1 << 16
_SCAN_BYTES = 1 << 20
# The maximum size of text that is buffered until its checksum.
_WAITING_BYTES = 1 << 25
# The maximum input of a member before its first output (bzip2).
_PROBE_BYTES = 1 << 21
# The maximum number of zeros that pad the last block of a medium; an unwritten block
# has more.
_MOST_PADDING = 511
_ZEROS = "a stretch of zeros in the place of a compressed stream"
# The maximum lag of a reader's buffer behind the decompressed text.
_BUFFERED = 1 << 18
# The largest window of `zstd --long`; the default limit is 2**27.
_LONGEST_ZSTD_WINDOW = 1 << 31
_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


@dataclass(frozen=True)
class Compression:
    """A compression format.

    Attributes:
        name: Its name.
        beginning: The magic bytes of a member.
        make: Makes a decompressor for one member.
        checks_blocks: Whether a decompressor returns text only after it has verified
            the checksum.
    """

    name: str
    beginning: re.Pattern[bytes]
    make: Callable[[], Any]
    checks_blocks: bool = False


COMPRESSIONS = {
    ".gz": Compression(
        "gzip",
        re.compile(rb"\x1f\x8b\x08[\x00-\x1f]", re.DOTALL),
        lambda: zlib.decompressobj(wbits=16 + zlib.MAX_WBITS),
    ),
    ".bz2": Compression(
        "bzip2",
        re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
        bz2.BZ2Decompressor,
        checks_blocks=True,
    ),
    ".xz": Compression(
        "xz",
        re.compile(rb"\xfd7zXZ\x00"),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
    ),
    ".zst": Compression(
        "zstandard",
        re.compile(rb"\x28\xb5\x2f\xfd"),
        lambda: zstandard.ZstdDecompressor(
            max_window_size=_LONGEST_ZSTD_WINDOW
        ).decompressobj(),
    ),
}


class DecompressedText(io.RawIOBase):
    """The decompressed text of a file, as far as it can be read.

    Args:
        stream: The compressed file, from its start; seekable.
        compression: Its format.
        size: The size of the compressed file in bytes.

    Attributes:
        gaps: Byte offsets in the text at which text is missing.
        damage: The damaged parts of the file found so far.
        cut: Whether the file ends inside a member.
    """

    def __init__(self, stream: BinaryIO, compression: Compression, size: int) -> None:
        self._stream = stream
        self._compression = compression
        self._size = size
        self._decompressor: Any = None
        self._input = b""
        self._fed = 0  # bytes of the file passed to decompressors
        self._fed_for_text = 0  # the same at the last output
        self._num_zeros = 0  # bytes skipped since the last member
        self._member = 0  # offset of the current member
        self._waiting: deque[bytes] = deque()  # text before its checksum
        self._num_waiting = 0
        self._checked = True  # whether all released text was verified
        self._ready: deque[bytes] = deque()
        self._offset = 0  # bytes of text read
        self._unpacked = 0  # bytes of text ready or read
        self._places: deque[tuple[int, int]] = deque([(0, 0)])  # offsets in text, file
        self.damage: list[Damage] = []
        self.gaps: list[int] = []
        self.cut = False

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._advance():
                return 0
        text = self._ready.popleft()
        size = min(len(buffer), len(text))
        buffer[:size] = text[:size]
        if size < len(text):
            self._ready.appendleft(text[size:])
        self._offset += size
        return size

    def source_offset(self, offset: int) -> int:
        """Converts an offset in the text to an approximate offset in the file."""
        texts = [text for text, _ in self._places]
        index = min(bisect_left(texts, offset), len(texts) - 1)
        (text, place), (text_0, place_0) = (
            self._places[index],
            self._places[max(index - 1, 0)],
        )
        if text == text_0:
            return place
        share = min((offset - text_0) / (text - text_0), 1.0)
        return place_0 + round(share * (place - place_0))

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _advance(self) -> bool:
        """Decompresses the next block; returns False at the end of the file."""
        block = self._input or self._stream.read(_BLOCK_BYTES)
        self._input = b""
        if not block:
            self._end_zeros()
            if self._decompressor is not None:
                self._end_inside()
                return bool(self._ready)
            return False
        if self._decompressor is None and not (block := self._begin(block)):
            return True
        decompressor: Any = self._decompressor
        try:
            text = decompressor.decompress(block)
        except _ERRORS as error:
            return self._go_on_after(str(error))
        self._fed += len(block)
        if text:
            self._waiting.append(text)
            self._num_waiting += len(text)
            self._fed_for_text = self._fed
        if decompressor.eof:
            self._input = decompressor.unused_data
            self._fed -= len(self._input)
            self._fed_for_text = min(self._fed_for_text, self._fed)
            self._decompressor = None
            self._release()
        elif self._compression.checks_blocks:
            self._release()
        elif not self._checked or self._num_waiting > _WAITING_BYTES:
            self._checked = False
            self._release()
        self._places.append((self._unpacked + self._num_waiting, self._fed))
        while self._places[1][0] < self._offset - _BUFFERED:
            self._places.popleft()
        return True

    def _begin(self, block: bytes) -> bytes:
        """Begins a member; skips zeros with which gzip may pad the previous member."""
        rest = block.lstrip(b"\0")
        self._fed += len(block) - len(rest)
        self._num_zeros += len(block) - len(rest)
        if rest:
            self._end_zeros()
            self._member, self._checked = self._fed, True
            self._decompressor = self._compression.make()
        return rest

    def _end_zeros(self) -> None:
        """Reports zeros between members as damage if they are more than padding."""
        if self._num_zeros > _MOST_PADDING:
            detail = "as in a file not written to its end"
            damage = Damage(_ZEROS, detail, self._unpacked, self._num_zeros)
            self.damage.append(damage)
            self.gaps.append(self._unpacked)
        self._num_zeros = 0

    def _release(self) -> None:
        """Releases the buffered text."""
        self._ready += self._waiting
        self._unpacked += self._num_waiting
        self._waiting.clear()
        self._num_waiting = 0

    def _end_inside(self) -> None:
        """Releases the text of a member that is truncated by the file's end.

        The compressed bytes of the incomplete last block count as unread.
        """
        self._decompressor = None
        self.cut = True
        self._release()
        unread = self._fed - max(self._fed_for_text, self._member)
        self._lose("truncated", "it ends inside its data", unread, doubtful=True)

    def _go_on_after(self, why: str) -> bool:
        """Skips a damaged member; returns False if no other member follows."""
        self._waiting.clear()
        self._num_waiting = 0
        self._decompressor = None
        begin = max(self._member, self.source_offset(self._unpacked))
        end = self._next_member(self._member + 1)
        self._lose("damaged", why, end - begin, doubtful=not self._checked)
        while self._places[-1][0] > self._unpacked:
            self._places.pop()
        self._places += [(self._unpacked, begin), (self._unpacked, end)]
        self._fed = end
        self._stream.seek(end)
        return end < self._size

    def _lose(self, how: str, detail: str, unread: int, *, doubtful: bool) -> None:
        reason = f"{how} {self._compression.name} stream"
        self.damage.append(Damage(reason, detail, self._unpacked, unread, doubtful))
        self.gaps.append(self._unpacked)

    def _next_member(self, start: int) -> int:
        """Returns the offset of the next valid member, or the file's end."""
        longest = 16
        while start < self._size:
            self._stream.seek(start)
            block = self._stream.read(_SCAN_BYTES)
            if not block:
                break
            for found in self._compression.beginning.finditer(block):
                if self._unpacks(start + found.start()):
                    return start + found.start()
            if start + len(block) >= self._size:
                break
            start += len(block) - longest
        return self._size

    def _unpacks(self, start: int) -> bool:
        decompressor = self._compression.make()
        self._stream.seek(start)
        for _ in range(_PROBE_BYTES // _BLOCK_BYTES):
            block = self._stream.read(_BLOCK_BYTES)
            if not block:
                return False
            try:
                text = decompressor.decompress(block)
            except _ERRORS:
                return False
            if text or decompressor.eof:
                return True
        return False
