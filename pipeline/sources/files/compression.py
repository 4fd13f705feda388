"""Compressed files, member after member, and what can be saved of a damaged one.

A gzip file is a series of members, a bzip2 or xz file of streams, a zstandard file of
frames; here all are called members. What a member unpacks to is handed on only when its
checksum has been found right; bzip2 has one for each block of some 900 kB. Of a damaged
member nothing is used, and reading goes on with the next one that can be unpacked.

A checksum that comes only after much text cannot be waited for: from then on text is
handed on as it comes, and damage leaves an amount that nobody knows in doubt. So does a
file that ends inside a member.
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

from transbeam.pipeline.sources.files.damage import Damage

_BLOCK_BYTES = 1 << 16
_SCAN_BYTES = 1 << 20
# Text that waits for its checksum, at most.
_WAITING_BYTES = 1 << 25
# What may have to be read of a member before it unpacks to anything (bzip2).
_PROBE_BYTES = 1 << 21
# Zeros that may fill up the last block of a medium; a block that was not written is
# more.
_MOST_PADDING = 511
_ZEROS = "a stretch of zeros in the place of a compressed stream"
# How far back a reader's buffer may be behind what was unpacked.
_BUFFERED = 1 << 18
# The largest window `zstd --long` can ask for; the default limit is 2**27.
_LONGEST_ZSTD_WINDOW = 1 << 31
_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


@dataclass(frozen=True)
class Compression:
    """A kind of compressed file.

    Attributes:
        name: What it is called.
        beginning: The bytes a member begins with.
        make: Makes a decompressor of one member.
        checks_blocks: Whether a decompressor hands text on only when its checksum was
            found right.
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
    """The text of a compressed file, as far as it can be read.

    Args:
        stream: The file as it is, from its start; seekable.
        compression: Its kind.
        size: Its bytes.

    Attributes:
        gaps: Where in the text something is missing, in bytes from its start.
        damage: What could not be read so far.
        cut: Whether the file ends inside a member.
    """

    def __init__(self, stream: BinaryIO, compression: Compression, size: int) -> None:
        self._stream = stream
        self._compression = compression
        self._size = size
        self._decompressor: Any = None
        self._input = b""
        self._fed = 0  # bytes of the file that a decompressor has had
        self._fed_for_text = 0  # the same when it gave text last
        self._num_zeros = 0  # bytes passed since the last member
        self._member = 0  # where in the file the member begins
        self._waiting: deque[bytes] = deque()  # text whose checksum is to come
        self._num_waiting = 0
        self._checked = True  # whether all text handed on had a checksum behind it
        self._ready: deque[bytes] = deque()
        self._offset = 0  # bytes of text handed on
        self._unpacked = 0  # bytes of text that are ready or were handed on
        self._places: deque[tuple[int, int]] = deque([(0, 0)])  # in text, in file
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
        """The place in the file of a place in the text, about."""
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
        """Unpacks the next block; false at the end of the file."""
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
        """Begins a member, behind the zeros that gzip may pad the one before with."""
        rest = block.lstrip(b"\0")
        self._fed += len(block) - len(rest)
        self._num_zeros += len(block) - len(rest)
        if rest:
            self._end_zeros()
            self._member, self._checked = self._fed, True
            self._decompressor = self._compression.make()
        return rest

    def _end_zeros(self) -> None:
        """Counts zeros between members as lost where they are more than padding."""
        if self._num_zeros > _MOST_PADDING:
            detail = "as in a file not written to its end"
            damage = Damage(_ZEROS, detail, self._unpacked, self._num_zeros)
            self.damage.append(damage)
            self.gaps.append(self._unpacked)
        self._num_zeros = 0

    def _release(self) -> None:
        """Makes the text ready that waits."""
        self._ready += self._waiting
        self._unpacked += self._num_waiting
        self._waiting.clear()
        self._num_waiting = 0

    def _end_inside(self) -> None:
        """Hands on what there is of a member that the file ends in.

        Unread is the block that has no end, as far as it is there.
        """
        self._decompressor = None
        self.cut = True
        self._release()
        unread = self._fed - max(self._fed_for_text, self._member)
        self._lose("truncated", "it ends inside its data", unread, doubtful=True)

    def _go_on_after(self, why: str) -> bool:
        """Leaves a damaged member out; false if no other follows."""
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
        """The beginning of the next member that can be unpacked, or the file's end."""
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
