"""Text to ids and back on a phone: the ids the model was trained with, to the last one.

All that a vocabulary and its rules are made of stands in one file of data, the tables
of Unicode too: those of a phone depend on the version of its system. This file needs
Python alone. `Tokenizer.kt` and `Tokenizer.swift` have the same parts in the same
order; whoever changes one changes all three.

    tokenizer = Tokenizer.load("phone_tokenizer.json")
    row = tokenizer.frame(tokenizer.encode("a text"), length=128)
    row.token_ids, row.padding_mask, row.segment_ids  # what the model takes

`python tokenizer.py phone_tokenizer.json golden_ids.json` says whether the ids are
those that the model's own tokenizer gave when it was exported.
"""

import base64
import heapq
import json
import struct
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FORMAT, VERSION = "transbeam-phone-tokenizer", 1
LONGEST = 200_000  # bytes of a text in UTF-8; longer ones are refused

Ids = list[int]

_SPACE = "▁"  # how SentencePiece writes a space
_REPLACEMENT = "\ufffd"  # stands for what is no character


class BadDataError(ValueError):
    """The file of data cannot be used."""


class Row(NamedTuple):
    """What a model takes: each list has the length that was asked for.

    Attributes:
        token_ids: The pieces, then padding.
        padding_mask: 1 for a piece, 0 for padding.
        segment_ids: 1 on the second text of a pair and the piece that ends it.
        truncated: Whether something was cut off.
    """

    token_ids: Ids
    padding_mask: Ids
    segment_ids: Ids
    truncated: bool


class Tokenizer:
    """A tokenizer of any kind.

    Args:
        data: What `phone_tokenizer.json` holds.

    Raises:
        BadDataError: It is of another format, or a part is missing.
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
        """The tokenizer of a file.

        Raises:
            BadDataError: It is no JSON, of another format, or a part is missing.
        """
        try:
            return cls(json.loads(Path(path).read_bytes()))
        except ValueError as error:
            raise BadDataError(f"{path}: {error}") from error

    def encode(self, text: str) -> Ids:
        """The ids of a text without a frame; a special piece in it is ordinary text.

        Raises:
            ValueError: The text is too long.
        """
        return self._around_whole(_whole(self.limited(text)))

    def _around_whole(self, text: str) -> Ids:
        """The ids of a text, in which some pieces may be found whole."""
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
        """The longest piece that is found whole at a place."""
        for i in self._whole:
            piece = self.pieces[i]
            part = text[place : place + len(piece)]
            if part == piece or (i in self._folded and _lower(part) == _lower(piece)):
                return i
        return None

    def limited(self, text: str) -> str:
        """The text itself.

        Raises:
            ValueError: It is too long.
        """
        size = len(text.encode("utf-8", "replace"))
        if size > LONGEST:
            raise ValueError(f"a text of {size} bytes: expected {LONGEST} at most")
        return text

    def encode_with_masks(self, text: str) -> Ids:
        """As `encode`, but each `[MASK]` in the text is the piece that hides a token.

        Raises:
            ValueError: The vocabulary has no such piece, or the text is too long.
        """
        if self.mask is None:
            raise ValueError("the vocabulary has no piece that hides a token")
        parts = self.limited(text).split(self._mask_text)
        ids: Ids = []
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            # Spaces before a mask belong to what it stands for.
            ids += self.encode(part if is_last else part.rstrip(" "))
            ids += [] if is_last else [self.mask]
        return ids

    def masked_positions(self, row: Row, count: int) -> Ids:
        """Where the masks of a row stand: so many places, and 0 where there is none."""
        places = [i for i, piece in enumerate(row.token_ids) if piece == self.mask]
        return (places + [0] * count)[:count]

    def frame(self, ids: Sequence[int], length: int) -> Row:
        """`[CLS] text [SEP]` and padding; a text that is too long loses its end.

        Raises:
            ValueError: The vocabulary has no frame, or there is no room for it.
        """
        begin, end = self._frame_of(length, 2)
        kept = [begin, *ids[: length - 2], end]
        return self._padded(kept, len(kept), length, len(ids) > length - 2)

    def frame_pair(
        self, first: Sequence[int], second: Sequence[int], length: int
    ) -> Row:
        """`[CLS] first [SEP] second [SEP]` and padding.

        A pair that is too long loses pieces at the end of its longer text, until both
        are equally long; then of both in turn, the second text first.

        Raises:
            ValueError: The vocabulary has no frame, or there is no room for it.
        """
        begin, end = self._frame_of(length, 3)
        room = length - 3
        of_first = min(len(first), max(room - len(second), (room + 1) // 2))
        of_second = min(len(second), room - of_first)
        kept = [begin, *first[:of_first], end, *second[:of_second], end]
        cut = len(first) + len(second) > room
        return self._padded(kept, of_first + 2, length, cut)

    def source(self, ids: Sequence[int], length: int) -> Row:
        """What an encoder that feeds a decoder reads: `text </s>` and padding.

        Raises:
            ValueError: The vocabulary has no piece that ends a text, or no room.
        """
        if self.end is None or length < 1:
            raise ValueError("the vocabulary ends no text, or the row has no room")
        kept = [*ids[: length - 1], self.end]
        return self._padded(kept, len(kept), length, len(ids) > length - 1)

    def prompt(self, ids: Sequence[int], most: int) -> Ids:
        """What a decoder goes on from, without padding: the last `most` pieces.

        A text that has none begins with the piece that ends a document, for there has
        to be one.
        """
        begun = [*ids]
        if self.begin is not None and self.begin != self.end:
            begun = [self.begin, *ids]
        elif not begun and self.end is not None:
            begun = [self.end]
        return begun[max(len(begun) - most, 0) :]

    def decode(self, ids: Sequence[int]) -> str:
        """Text from ids, without padding, begin and end.

        Raises:
            ValueError: An id is outside the vocabulary.
        """
        for piece in ids:
            if not 0 <= piece < len(self.pieces):
                raise ValueError(f"{piece} is outside the vocabulary")
        silent = (self.pad, self.begin, self.end)
        return self._engine.decode([piece for piece in ids if piece not in silent])

    def disagreements(self, golden: dict[str, Any]) -> list[str]:
        """Where the ids are not those of the file of golden ids; empty if nowhere."""
        found = []
        for case in golden["cases"]:
            answers = self._answers(case, golden["length"], golden["prompt"])
            for name, value in answers.items():
                if value != case[name]:
                    told = f"{name} is {value}, expected {case[name]}"
                    found.append(f"{case['text']!r}: {told}")
        return found

    def _answers(self, case: dict[str, Any], length: int, most: int) -> dict[str, Any]:
        """What to compare with a case, by the same names."""
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

    def _frame_of(self, length: int, pieces: int) -> tuple[int, int]:
        if self.begin is None or self.end is None:
            raise ValueError("the vocabulary has no pieces to frame a text with")
        if length < pieces:
            raise ValueError(f"a row of {length} has no room for a frame of {pieces}")
        return self.begin, self.end

    def _padded(self, kept: Ids, of_first: int, length: int, cut: bool) -> Row:
        padding = length - len(kept)
        return Row(
            kept + [self.pad] * padding,
            [1] * len(kept) + [0] * padding,
            [0] * of_first + [1] * (len(kept) - of_first) + [0] * padding,
            cut,
        )


class _Engine(Protocol):
    def encode(self, text: str) -> Ids: ...

    def decode(self, ids: Ids) -> str: ...


class _WordPiece:
    """Words, and of each word the longest pieces."""

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
        """Lower case, without accents, or whatever the vocabulary is made of."""
        if self._has_hangul and 0xAC00 <= c < 0xAC00 + 11172:
            # A syllable is a number of its two or three letters.
            first, rest = divmod(c - 0xAC00, 588)
            second, third = divmod(rest, 28)
            letters = [0x1100 + first, 0x1161 + second, 0x11A7 + third]
            return letters if third else letters[:2]
        return self._becomes.get(c, [c])

    def _in_order(self, word: Ids) -> Ids:
        """Marks on one letter in the order of Unicode's classes; some then vanish."""
        start = 0
        while start < len(word):
            end = start
            while end < len(word) and word[end] in self._order:
                end += 1
            word[start:end] = sorted(word[start:end], key=self._order.__getitem__)
            start = end + 1
        return [c for c in word if c not in self._is_hidden]

    def _at_punctuation(self, word: Ids) -> list[str]:
        """A word in parts: each character of punctuation is a word of its own."""
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
    """Words as GPT-2 cuts them, and of each word bytes that are joined in pairs."""

    _SYMBOL, _LETTER, _NUMBER, _WHITE = range(4)
    _ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")

    def __init__(self, data: dict[str, Any]) -> None:
        self._pieces = data["pieces"]
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self._alphabet: str = data["alphabet"]
        self._byte_of = {letter: i for i, letter in enumerate(self._alphabet)}
        self._names = set(data["names"])
        self._prefix: bool = data["add_prefix_space"]
        # A pair is written with a space between: no letter of the alphabet is one.
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
        """Where the word that begins at `start` ends."""
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
            end -= 1  # the last one belongs to what follows, or is a word of its own
        return end


class _SentencePiece:
    """Pieces that are likeliest together (`unigram`), or joined in pairs (`bpe`).

    In bytes of UTF-8, as the library does it.
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
            elif not (is_unknown and was_unknown):  # several in a row are one
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
            # A special piece is a word of its own.
            if between:
                add(self._text(between))
            add(self._pieces[i])
            between = []
        if between:
            add(self._text(between))
        return text

    def _likeliest(self, text: bytes) -> list[tuple[bytes, int]]:
        """By Viterbi's algorithm, in the precision of the library."""
        size = len(text)
        best = [0.0] * (size + 1)  # score of the pieces up to each place
        begins, ids = [-1] * (size + 1), [self._unknown] * (size + 1)

        def offer(start: int, end: int, score: float, i: int) -> None:
            score += best[start]
            if begins[end] < 0 or score > best[end]:
                best[end], begins[end], ids[end] = _as_float(score), start, i

        start = 0
        while start < size:
            behind = start + _character(text, start)[0]
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
            size = own or _character(text, start)[0]
            symbols.append(text[start : start + size])
            fixed.append(own > 0)
            start += size
        halves: dict[bytes, tuple[bytes, bytes]] = {}  # of what must not be used whole

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
        """What pieces stand for, without the space that was put before the text."""
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
    """SentencePiece's rules: of those that begin at a place the longest is taken.

    They stand in a trie, an array of 32-bit numbers as the library writes it, whose
    leaves say where in a list of texts the new one stands.
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
        """What the next bytes become, and how many they are."""
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
        size = _character(text, place)[0]
        return text[place : place + size], size


class _CodePoints:
    """A set of code points, told by where it begins and ends, in turn."""

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
    """Halves of a character that only UTF-16 knows become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _lower(text: str) -> str:
    """With the letters of ASCII in lower case, and no others."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _groups(values: Sequence[int], size: int) -> list[Sequence[int]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def _joined(symbols: list[Any], fixed: list[bool], rank: Callable) -> list[Any]:
    """Joins neighbours, those of the lowest rank first, the leftmost of equal ones.

    Args:
        symbols: What a word is made of at first: texts or bytes.
        fixed: Which of them are left as they are.
        rank: Of a pair; None if it cannot be joined.
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
            continue  # one of them is part of another by now
        if len(symbols[left]) + len(symbols[right]) != size:
            continue  # or longer
        symbols[left] += symbols[right]
        symbols[right] = symbols[right][:0]
        behind[left] = behind[right]
        if behind[left] < len(symbols):
            before[behind[left]] = left
        offer(before[left], left)
        offer(left, behind[left])
    return [symbol for symbol in symbols if symbol]


def _longest_of(own: set[bytes], text: bytes, place: int) -> int:
    """How many of the next bytes are one of those texts; 0 if none is."""
    fitting = [len(one) for one in own if text.startswith(one, place)]
    return max(fitting, default=0)


def _offset(unit: int) -> int:
    """Where the children of a node stand, relative to it."""
    return unit >> 10 << ((unit & 0x200) >> 6)


def _as_float(score: float) -> float:
    """A number in the precision of 32 bits."""
    return struct.unpack("f", struct.pack("f", score))[0]


def _character(content: bytes, place: int) -> tuple[int, bool]:
    """How many bytes a character has, and whether it is one.

    If it is none, the bytes that could have been the beginning of one.
    """
    lead = content[place]
    if lead < 0x80:
        return 1, True
    if not 0xC2 <= lead <= 0xF4:
        return 1, False
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    # What would be longer than need be, a half of a pair, or beyond all characters.
    low = {0xE0: 0xA0, 0xF0: 0x90}.get(lead, 0x80)
    high = {0xED: 0x9F, 0xF4: 0x8F}.get(lead, 0xBF)
    for i in range(1, size):
        if place + i >= len(content) or not low <= content[place + i] <= high:
            return i, False
        low, high = 0x80, 0xBF
    return size, True


def _read_text(content: bytes, *, each_byte: bool) -> str:
    """Bytes as text: what is no character is U+FFFD, as a whole or each byte of it."""
    text = ""
    place = 0
    while place < len(content):
        size, is_one = _character(content, place)
        text += content[place : place + size].decode() if is_one else _REPLACEMENT
        place += 1 if each_byte and not is_one else size
    return text


_ENGINES = {
    "wordpiece": _WordPiece,
    "byte_bpe": _ByteBPE,
    "unigram": _SentencePiece,
    "bpe": _SentencePiece,
}


def main(data: str, golden: str) -> int:
    """Compares with golden ids; 0 if all are the same."""
    cases = json.loads(Path(golden).read_bytes())
    found = Tokenizer.load(data).disagreements(cases)
    print("\n".join(found) or f"{len(cases['cases'])} texts: all as expected")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
