"""Encodes text to token ids and decodes ids on a phone, exactly as in training.

One data file contains the vocabulary, the tokenization rules and the Unicode tables,
because a phone's own Unicode tables depend on the version of its operating system. This
file needs nothing but Python's standard library. `Tokenizer.kt` and `Tokenizer.swift`
are ports with the same classes and functions in the same order; a change to one has to
be made in all three.

    tokenizer = Tokenizer.load("phone_tokenizer.json")
    row = tokenizer.frame(tokenizer.encode("a text"), length=128)
    row.token_ids, row.padding_mask, row.segment_ids  # the model's inputs

`python tokenizer.py phone_tokenizer.json golden_ids.json` compares this tokenizer's ids
with the golden ids, which the training tokenizer produced at export.
"""

import base64
import heapq
import json
import re
import struct
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FORMAT, VERSION = "transbeam-phone-tokenizer", 1
LONGEST = 200_000  # bytes of a text in UTF-8; longer ones fail

Ids = list[int]

_SPACE = "▁"  # SentencePiece's symbol for a space


class BadDataError(ValueError):
    """The data file cannot be used."""


class Row(NamedTuple):
    """The inputs of a model: each list has the requested length.

    Attributes:
        token_ids: The ids of the pieces, then padding.
        padding_mask: 1 for pieces, 0 for padding.
        segment_ids: 1 for a pair's second text and the separator after it, otherwise 0.
        truncated: Whether the text was cut to the length.
    """

    token_ids: Ids
    padding_mask: Ids
    segment_ids: Ids
    truncated: bool


class Tokenizer:
    """A WordPiece, byte-level BPE or SentencePiece tokenizer.

    Args:
        data: The content of `phone_tokenizer.json`.

    Raises:
        BadDataError: The data is in another format, or a part of the data is missing.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        _check(data)
        try:
            self.pieces: list[str] = data["pieces"]
            special: dict[str, int | None] = data["special"]
            self.pad: int = data["special"]["pad"]
            self.unknown, self.begin = special["unknown"], special["begin"]
            self.end, self.mask = special["end"], special["mask"]
            ends = [self.end, *data["special"].get("stop", ())]
            self.ends: list[int] = [end for end in ends if end is not None]
            self._frame = _frame_from(data)
            self._mask_text: str = data["mask_text"]
            self._whole: list[int] = data.get("whole", [])
            self._folded: set[int] = set(data.get("folded", ()))
            self._engine: _Engine = _ENGINES[data["kind"]](data)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise BadDataError(
                f"the tokenizer's data are damaged: {error!r}. Take the file that was "
                "exported with the model"
            ) from error

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Loads a tokenizer from its data file.

        Raises:
            BadDataError: The file is not JSON, has another format, or a part is
                missing.
        """
        try:
            return cls(json.loads(Path(path).read_bytes()))
        except ValueError as error:
            raise BadDataError(f"{path}: {error}") from error

    def encode(self, text: str) -> Ids:
        """Encodes a text, without special tokens; `[SEP]` in a text is ordinary text.

        Raises:
            ValueError: The text is too long.
        """
        return self._around_whole(_whole(self.limited(text)))

    def _around_whole(self, text: str) -> Ids:
        """Encodes a text; added tokens in it become one id each."""
        if not self._whole:
            return self._engine.encode(text)
        ids, start, place = [], 0, 0
        while place < len(text):
            piece = self._whole_at(text, place)
            if piece is None:
                place += 1
                continue
            ids += [*self._engine.encode(text[start:place]), piece]
            start = place = place + len(self.pieces[piece])
        return ids + self._engine.encode(text[start:])

    def _whole_at(self, text: str, place: int) -> int | None:
        """Returns the longest added token that begins at a position."""
        for i in self._whole:
            piece = self.pieces[i]
            part = text[place : place + len(piece)]
            if part == piece or (i in self._folded and _lower(part) == _lower(piece)):
                return i
        return None

    def limited(self, text: str) -> str:
        """Returns the text unchanged.

        Raises:
            ValueError: The text is too long.
        """
        size = len(text.encode("utf-8", "replace"))
        if size > LONGEST:
            raise ValueError(f"a text of {size} bytes: expected {LONGEST} at most")
        return text

    def encode_with_masks(self, text: str) -> Ids:
        """Encodes like `encode`, but each `[MASK]` in the text becomes the mask token.

        Raises:
            ValueError: The vocabulary has no mask token, or the text is too long.
        """
        if self.mask is None:
            raise ValueError("the vocabulary has no piece that hides a token")
        parts = self.limited(text).split(self._mask_text)
        ids: Ids = []
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            # Spaces before a mask belong to the masked word.
            ids += self.encode(part if is_last else part.rstrip(" "))
            ids += [] if is_last else [self.mask]
        return ids

    def masked_positions(self, row: Row, count: int) -> Ids:
        """Returns `count` positions of a row's mask tokens, padded with 0."""
        places = [i for i, piece in enumerate(row.token_ids) if piece == self.mask]
        return (places + [0] * count)[:count]

    def frame(self, ids: Sequence[int], length: int) -> Row:
        """Returns a text with its special tokens and padding.

        An encoder's text is `[CLS] text [SEP]`. A text that is too long is truncated.

        Raises:
            ValueError: The vocabulary has no special tokens, or `length` is too small.
        """
        before, _, after = self._frame_of(length, 1)
        room = length - len(before) - len(after)
        kept = [*before, *ids[:room], *after] or self._frame["alone"]
        return self._padded(kept, len(kept), length, len(ids) > room)

    def frame_pair(
        self, first: Sequence[int], second: Sequence[int], length: int
    ) -> Row:
        """Returns a pair of texts with its special tokens and padding.

        An encoder's pair is `[CLS] first [SEP] second [SEP]`. If it is too long it is
        truncated longest-first: at the end of the longer text until both texts have the
        same length, then alternately at the ends of both texts, the second text first.

        Raises:
            ValueError: The vocabulary has no special tokens, or `length` is too small.
        """
        before, between, after = self._frame_of(length, 2)
        room = length - len(before) - len(between) - len(after)
        of_first = min(len(first), max(room - len(second), (room + 1) // 2))
        of_second = min(len(second), room - of_first)
        kept = [*before, *first[:of_first], *between]
        until_second = len(kept)
        kept += [*second[:of_second], *after]
        cut = len(first) + len(second) > room
        return self._padded(kept, until_second, length, cut)

    def source(self, ids: Sequence[int], length: int) -> Row:
        """Returns an encoder's input for a seq2seq model: `text </s>` and padding.

        Raises:
            ValueError: The vocabulary has no end token, or `length` is 0.
        """
        if self.end is None or length < 1:
            raise ValueError("the vocabulary ends no text, or the row has no room")
        kept = [*ids[: length - 1], self.end]
        return self._padded(kept, len(kept), length, len(ids) > length - 1)

    def prompt(self, ids: Sequence[int], most: int) -> Ids:
        """Returns a decoder prompt without padding: the last `most` ids.

        A prompt needs at least one id: if the vocabulary has no begin token of its own,
        an empty text becomes the end token.
        """
        begun = [*ids]
        if self.begin is not None and self.begin != self.end:
            begun = [self.begin, *ids]
        elif not begun and self.end is not None:
            begun = [self.end]
        return begun[max(len(begun) - most, 0) :]

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes ids; padding, begin and end tokens are skipped.

        Raises:
            ValueError: An id is outside the vocabulary.
        """
        for piece in ids:
            if not 0 <= piece < len(self.pieces):
                raise ValueError(f"{piece} is outside the vocabulary")
        silent = (self.pad, self.begin, self.end)
        return self._engine.decode([piece for piece in ids if piece not in silent])

    def disagreements(self, golden: dict[str, Any]) -> list[str]:
        """Returns differences from golden ids as messages; empty if there are none."""
        found = []
        for case in golden["cases"]:
            answers = self._answers(case, golden["length"], golden["prompt"])
            for name, value in answers.items():
                if value != case[name]:
                    told = f"{name} is {value}, expected {case[name]}"
                    found.append(f"{case['text']!r}: {told}")
        return found

    def _answers(self, case: dict[str, Any], length: int, most: int) -> dict[str, Any]:
        """Returns the values to compare with a golden case, under the same names."""
        encode = self.encode_with_masks if case["masks"] else self.encode
        ids = encode(case["text"])
        answers: dict[str, Any] = {
            "ids": ids,
            "decoded": self.decode(ids),
            "prompt_ids": self.prompt(ids, most),
        }
        if "token_ids" in case:
            second = case["second_text"]
            row = (
                self.frame(ids, length)
                if second is None
                else self.frame_pair(ids, self.encode(second), length)
            )
            answers |= row._asdict()
        return answers

    def _frame_of(self, length: int, texts: int) -> tuple[Ids, Ids, Ids]:
        """Returns the special tokens before, between and after one text or two."""
        if not self._frame:
            raise ValueError("the vocabulary has no pieces to frame a text with")
        before, after = self._frame["before"], self._frame["after"]
        between = self._frame["between"] if texts == 2 else []
        pieces = max(len(before) + len(between) + len(after), 1)
        if length < pieces:
            raise ValueError(f"a row of {length} has no room for a frame of {pieces}")
        return before, between, after

    def _padded(self, kept: Ids, of_first: int, length: int, cut: bool) -> Row:
        padding = length - len(kept)
        return Row(
            kept + [self.pad] * padding,
            [1] * len(kept) + [0] * padding,
            [0] * of_first + [1] * (len(kept) - of_first) + [0] * padding,
            cut,
        )


def _frame_from(data: dict[str, Any]) -> dict[str, Ids]:
    """Returns the special tokens of a row by their places; an encoder's by default.

    Empty if the vocabulary has no tokens to frame a text with.
    """
    begin, end = data["special"]["begin"], data["special"]["end"]
    if "frame" in data:
        ids: dict[str, int | None] = data["frame"]
    elif begin is None or end is None:
        return {}
    else:
        ids = {"before": begin, "between": end, "after": end, "alone": None}
    places = ("before", "between", "after", "alone")
    return {place: [i for i in (ids[place],) if i is not None] for place in places}


class _Engine(Protocol):
    def encode(self, text: str) -> Ids: ...

    def decode(self, ids: Ids) -> str: ...


class _WordPiece:
    """WordPiece: splits texts into words, and words greedily into longest pieces."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._pieces = data["pieces"]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._unknown: int = data["special"]["unknown"]
        self._prefix: str = data["continuation"]
        self._longest: int = data["longest_word"]
        table = data["characters"]
        self._is_space = _CodePoints(table["spaces"])
        self._is_deleted = _CodePoints(table["deleted"])
        self._is_word = _CodePoints(table["words"])
        self._is_punctuation = _CodePoints(table["punctuation"])
        self._is_hidden = _CodePoints(table["hidden"])
        self._has_hangul: bool = table["decompose_hangul"]
        self._becomes: dict[int, Ids] = {}
        for first, last, step, shift in _groups(table["shifts"], 4):
            for c in range(first, last + 1, step):
                self._becomes[c] = [c + shift]
        for c, *others in table["replaced"]:
            self._becomes[c] = others
        self._order: dict[int, int] = {}
        for first, last, place in _groups(table["order"], 3):
            for c in range(first, last + 1):
                self._order[c] = place

    def encode(self, text: str) -> Ids:
        return [i for word in self._words(text) for i in self._look_up(word)]

    def decode(self, ids: Ids) -> str:
        joined = " ".join([self._pieces[i] for i in ids])
        return joined.replace(f" {self._prefix}", "")

    def _words(self, text: str) -> list[str]:
        words: list[str] = []
        word: Ids = []

        def close() -> None:
            words.extend(self._at_punctuation(self._in_order(word)))
            word.clear()

        for c in map(ord, text):
            if c in self._is_space:
                close()
            elif c in self._is_deleted:
                continue
            elif c in self._is_word:
                close()
                word.extend(self._folded(c))
                close()
            else:
                word.extend(self._folded(c))
        close()
        return words

    def _folded(self, c: int) -> Ids:
        """Normalizes a character as the vocabulary requires, such as to lowercase."""
        if self._has_hangul and 0xAC00 <= c < 0xAC00 + 11172:
            # The code point of a syllable encodes its two or three letters.
            first, rest = divmod(c - 0xAC00, 588)
            second, third = divmod(rest, 28)
            letters = [0x1100 + first, 0x1161 + second, 0x11A7 + third]
            return letters if third else letters[:2]
        return self._becomes.get(c, [c])

    def _in_order(self, word: Ids) -> Ids:
        """Sorts combining marks by canonical combining class; then strips marks."""
        start = 0
        while start < len(word):
            end = start
            while end < len(word) and word[end] in self._order:
                end += 1
            word[start:end] = sorted(word[start:end], key=self._order.__getitem__)
            start = end + 1
        return [c for c in word if c not in self._is_hidden]

    def _at_punctuation(self, word: Ids) -> list[str]:
        """Splits a word at punctuation: each such character is a word of its own."""
        parts = [""]
        for c in word:
            if c in self._is_punctuation:
                parts += [chr(c), ""]
            else:
                parts[-1] += chr(c)
        return [part for part in parts if part]

    def _look_up(self, word: str) -> Ids:
        if len(word) > self._longest:
            return [self._unknown]
        ids: Ids = []
        start = 0
        while start < len(word):
            prefix = self._prefix if start else ""
            end = len(word)
            while end > start and prefix + word[start:end] not in self._ids:
                end -= 1
            if end == start:
                return [self._unknown]
            ids.append(self._ids[prefix + word[start:end]])
            start = end
        return ids


class _ByteBPE:
    """Byte-level BPE: splits texts as GPT-2 does, and merges pairs of bytes."""

    _SYMBOL, _LETTER, _NUMBER, _WHITE = range(4)
    _ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")

    def __init__(self, data: dict[str, Any]) -> None:
        self._pieces = data["pieces"]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._alphabet: str = data["alphabet"]
        self._byte_of = {letter: i for i, letter in enumerate(self._alphabet)}
        self._names = set(data["names"])
        self._prefix: bool = data["add_prefix_space"]
        # A space separates the two parts of a pair: the alphabet does not contain it.
        self._ranks = {pair: rank for rank, pair in enumerate(data["merges"])}
        table = data["characters"]
        self._is_letter = _CodePoints(table["letters"])
        self._is_number = _CodePoints(table["numbers"])
        self._is_white = _CodePoints(table["white"])

    def encode(self, text: str) -> Ids:
        if self._prefix and text and not text.startswith(" "):
            text = f" {text}"
        ids: Ids = []
        for word in self._words(text):
            letters = [self._alphabet[byte] for byte in word.encode()]
            joined = _joined(
                letters,
                [False] * len(letters),
                lambda left, right: self._ranks.get(f"{left} {right}"),
            )
            ids += [self._ids[piece] for piece in joined]
        return ids

    def decode(self, ids: Ids) -> str:
        content = bytearray()
        for i in ids:
            piece = self._pieces[i]
            if i in self._names:
                content += piece.encode()
            else:
                content += bytes([self._byte_of[letter] for letter in piece])
        return _read_text(bytes(content), each_byte=False)

    def _words(self, text: str) -> list[str]:
        kinds = [self._kind(ord(c)) for c in text]
        words = []
        start = 0
        while start < len(text):
            end = self._end(text, kinds, start)
            words.append(text[start:end])
            start = end
        return words

    def _kind(self, c: int) -> int:
        if c in self._is_letter:
            return self._LETTER
        if c in self._is_number:
            return self._NUMBER
        return self._WHITE if c in self._is_white else self._SYMBOL

    def _end(self, text: str, kinds: list[int], start: int) -> int:
        """Returns the end of the word that begins at `start`."""
        for ending in self._ENDINGS:
            if text.startswith(ending, start):
                return start + len(ending)
        size = len(text)
        # A space belongs to the word after it.
        begin = start + 1 if text[start] == " " and start + 1 < size else start
        if kinds[begin] == self._WHITE:
            begin = start
        end = begin
        while end < size and kinds[end] == kinds[begin]:
            end += 1
        if kinds[begin] == self._WHITE and end < size and end - start > 1:
            end -= 1  # the last one belongs to the next word, or is a word of its own
        return end


class _SentencePiece:
    """SentencePiece: the most probable pieces (`unigram`), or merged pairs (`bpe`).

    Works on UTF-8 bytes, as the SentencePiece library does.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self._pieces: list[str] = data["pieces"]
        self._is_unigram: bool = data["kind"] == "unigram"
        self._unknown: int = data["special"]["unknown"]
        self._unknown_score = float(data["unknown_score"])
        self._unknown_text: str = data["unknown_text"]
        self._scores = [float(score) for score in data["scores"]]
        self._byte_ids: Ids = data["byte_ids"]
        self._byte_of = {i: byte for byte, i in enumerate(self._byte_ids)}
        self._alone, self._unused = set(data["alone"]), set(data["unused"])
        self._of_text = {self._pieces[i].encode(): i for i in data["of_text"]}
        self._named = {self._pieces[i].encode(): i for i in data["named"]}
        self._longest = max(map(len, self._of_text), default=0)
        self._own = {self._pieces[i].encode() for i in data["user_defined"]}
        self._normalizer = _Normalizer(data["normalizer"], self._own)

    def encode(self, text: str) -> Ids:
        normal = self._normalizer.normalize(text.encode())
        found = self._likeliest(normal) if self._is_unigram else self._merged(normal)
        ids: Ids = []
        was_unknown = False
        for piece, i in found:
            is_unknown = i == self._unknown
            if is_unknown and self._byte_ids:
                ids += [self._byte_ids[byte] for byte in piece]
            elif not (is_unknown and was_unknown):  # adjacent unknowns are merged
                ids.append(i)
            was_unknown = is_unknown
        return ids

    def decode(self, ids: Ids) -> str:
        text = ""
        between: Ids = []

        def add(word: str) -> None:
            nonlocal text
            text += f" {word}" if text else word

        for i in ids:
            if i not in self._alone:
                between.append(i)
                continue
            # A special token is a word of its own.
            if between:
                add(self._text(between))
            add(self._pieces[i])
            between = []
        if between:
            add(self._text(between))
        return text

    def _likeliest(self, text: bytes) -> list[tuple[bytes, int]]:
        """Finds the best pieces by Viterbi's algorithm, with scores in float32."""
        size = len(text)
        best = [0.0] * (size + 1)  # score of the best pieces up to each position
        begins, ids = [-1] * (size + 1), [self._unknown] * (size + 1)

        def offer(start: int, end: int, score: float, i: int) -> None:
            score += best[start]
            if begins[end] < 0 or score > best[end]:
                best[end], begins[end], ids[end] = _as_float(score), start, i

        start = 0
        while start < size:
            behind = start + _character(text, start)
            is_covered = False
            for end in range(start + 1, min(start + self._longest, size) + 1):
                i = self._of_text.get(text[start:end])
                if i is not None and i not in self._unused:
                    offer(start, end, self._scores[i], i)
                    is_covered = is_covered or end == behind
            if not is_covered:
                offer(start, behind, self._unknown_score, self._unknown)
            start = behind
        found = []
        end = size
        while end > 0:
            found.append((text[begins[end] : end], ids[end]))
            end = begins[end]
        return found[::-1]

    def _merged(self, text: bytes) -> list[tuple[bytes, int]]:
        symbols: list[bytes] = []
        fixed: list[bool] = []
        start = 0
        while start < len(text):
            own = _longest_of(self._own, text, start)
            size = own or _character(text, start)
            symbols.append(text[start : start + size])
            fixed.append(own > 0)
            start += size
        halves: dict[bytes, tuple[bytes, bytes]] = {}  # parts of unused pieces

        def rank(left: bytes, right: bytes) -> float | None:
            i = self._of_text.get(left + right)
            if i is None:
                return None
            if i in self._unused:
                halves[left + right] = left, right
            return -self._scores[i]

        def with_ids(piece: bytes) -> list[tuple[bytes, int]]:
            i = self._named.get(piece, self._of_text.get(piece, self._unknown))
            if i in self._unused and piece in halves:
                left, right = halves[piece]
                return with_ids(left) + with_ids(right)
            return [(piece, i)]

        joined = _joined(symbols, fixed, rank)
        return [found for piece in joined for found in with_ids(piece)]

    def _text(self, ids: Ids) -> str:
        """Decodes pieces; drops the space that was added before the text."""
        text = ""
        content = bytearray()
        is_start, dropped = True, False
        for i in [*ids, -1]:
            if i in self._byte_of:
                content.append(self._byte_of[i])
                continue
            text += _read_text(bytes(content), each_byte=True)
            content.clear()
            is_start = is_start and not (dropped or text)
            if i >= 0:
                piece = self._pieces[i]
                dropped = False
                if i == self._unknown:
                    piece = self._unknown_text
                elif is_start and self._normalizer.drops_space:
                    dropped = piece.startswith(_SPACE) and not self._normalizer.strips
                    piece = piece.removeprefix(_SPACE)
                text += piece.replace(_SPACE, " ")
        return text


class _Normalizer:
    """SentencePiece's normalization: the longest rule that matches is applied.

    The rules are in the library's trie, an array of 32-bit numbers, whose leaves are
    offsets into the list of replacement texts.
    """

    def __init__(self, rules: dict[str, Any], own: set[bytes]) -> None:
        content = base64.b64decode(rules["trie"])
        self._trie = struct.unpack(f"<{len(content) // 4}I", content)
        self._texts = base64.b64decode(rules["texts"])
        self._own = own
        self._adds: bool = rules["add_space"]
        self._at_end: bool = rules["space_at_end"]
        self.strips: bool = rules["remove_extra_spaces"]
        self.drops_space = self._adds or self.strips
        self._space = (_SPACE if rules["escape_spaces"] else " ").encode()

    def normalize(self, text: bytes) -> bytes:
        place = 0
        while self.strips and place < len(text):
            new, size = self._rule(text, place)
            if new != b" ":
                break
            place += size
        if place == len(text):
            return b""
        out = bytearray(self._space if self._adds and not self._at_end else b"")
        after_space = self.strips
        while place < len(text):
            new, size = self._rule(text, place)
            place += size
            new = new.lstrip(b" ") if after_space else new
            out += new.replace(b" ", self._space)
            if new:
                after_space = self.strips and new.endswith(b" ")
        while self.strips and out.endswith(self._space):
            del out[-len(self._space) :]
        out += self._space if self._adds and self._at_end else b""
        return bytes(out)

    def _rule(self, text: bytes, place: int) -> tuple[bytes, int]:
        """Returns the replacement of the next bytes, and how many bytes it replaces."""
        if own := _longest_of(self._own, text, place):
            return text[place : place + own], own
        found = size = 0
        node = _offset(self._trie[0]) if self._trie else 0
        for end in range(place, len(text) if self._trie else place):
            node ^= text[end]
            unit = self._trie[node]
            if unit & 0x800000FF != text[end]:
                break
            node ^= _offset(unit)
            if unit >> 8 & 1:
                found, size = self._trie[node] & 0x7FFFFFFF, end + 1 - place
        if size:
            return self._texts[found : self._texts.index(0, found)], size
        size = _character(text, place)
        return text[place : place + size], size


class _CodePoints:
    """A set of code points, stored as alternating begins and ends of intervals."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges

    def __contains__(self, code_point: int) -> bool:
        return bisect_right(self._edges, code_point) % 2 == 1


def _check(data: Any) -> None:
    found = (data.get("format"), data.get("version")) if type(data) is dict else None
    if found != (FORMAT, VERSION):
        raise BadDataError(
            f"found the format {found}, expected {(FORMAT, VERSION)}. Take the file "
            "that was exported with the model, and the tokenizer that came with it"
        )
    if data.get("kind") not in _ENGINES:
        raise BadDataError(
            f"found the kind {data.get('kind')!r}, expected one of {[*_ENGINES]}"
        )


def _whole(text: str) -> str:
    """Replaces lone surrogates by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _lower(text: str) -> str:
    """Lowercases ASCII letters only."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _groups(values: Sequence[int], size: int) -> list[Sequence[int]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def _joined(symbols: list[Any], fixed: list[bool], rank: Callable) -> list[Any]:
    """Merges adjacent pieces, lowest rank first, leftmost first among equal ranks.

    Args:
        symbols: The initial pieces of a word: texts or bytes.
        fixed: Whether each initial piece is excluded from merging.
        rank: A function that returns the rank of a pair of pieces, or None if the pair
            cannot be merged.
    """
    symbols = list(symbols)
    before = list(range(-1, len(symbols) - 1))
    behind = list(range(1, len(symbols) + 1))
    waiting: list[tuple[float, int, int, int]] = []

    def offer(left: int, right: int) -> None:
        if left < 0 or right >= len(symbols) or fixed[left] or fixed[right]:
            return
        found = rank(symbols[left], symbols[right])
        if found is not None:
            size = len(symbols[left]) + len(symbols[right])
            heapq.heappush(waiting, (found, left, right, size))

    for right in range(1, len(symbols)):
        offer(right - 1, right)
    while waiting:
        _, left, right, size = heapq.heappop(waiting)
        if not symbols[left] or not symbols[right]:
            continue  # outdated: one of them was merged into another piece
        if len(symbols[left]) + len(symbols[right]) != size:
            continue  # outdated: one of them has grown
        symbols[left] += symbols[right]
        symbols[right] = symbols[right][:0]
        behind[left] = behind[right]
        if behind[left] < len(symbols):
            before[behind[left]] = left
        offer(before[left], left)
        offer(left, behind[left])
    return [symbol for symbol in symbols if symbol]


def _longest_of(own: set[bytes], text: bytes, place: int) -> int:
    """Returns the length of the longest given text found at a position, or 0."""
    fitting = [len(one) for one in own if text.startswith(one, place)]
    return max(fitting, default=0)


def _offset(unit: int) -> int:
    """Returns the offset from a node to its children."""
    return unit >> 10 << ((unit & 0x200) >> 6)


def _as_float(score: float) -> float:
    """Rounds a number to float32."""
    return struct.unpack("f", struct.pack("f", score))[0]


def _character(content: bytes, place: int) -> int:
    """Returns the length of the next character in bytes."""
    lead = content[place]
    return 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _read_text(content: bytes, *, each_byte: bool) -> str:
    """Decodes bytes; an invalid sequence, or each of its bytes, becomes U+FFFD."""
    if each_byte:
        escaped = content.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", "\ufffd", escaped)
    return content.decode("utf-8", "replace")


_ENGINES = {
    "wordpiece": _WordPiece,
    "byte_bpe": _ByteBPE,
    "unigram": _SentencePiece,
    "bpe": _SentencePiece,
}


def main(data: str, golden: str) -> int:
    """Compares the tokenizer's ids with golden ids; returns 0 if all are equal."""
    cases = json.loads(Path(golden).read_bytes())
    found = Tokenizer.load(data).disagreements(cases)
    print("\n".join(found) or f"{len(cases['cases'])} texts: all as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
