"""Greedy decoding with a TFLite file, the same loop as in an app on a phone.

The prompt is processed in chunks of the sizes of the file's `prefill` signatures. Then
the most probable next token is appended, one at a time.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from transbeam.configs.base.errors import ArtifactError, DataError
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.signatures.generation.tflite_signatures import (
    CACHE,
    DECODE,
    ENCODE,
    PREFILL,
    PREFIX,
)

Ids = Sequence[int] | np.ndarray


class TFLiteGeneration(NamedTuple):
    """Generated tokens and their logits.

    Attributes:
        token_ids: int32 (N,), including the stop token that ended generation, if any.
        logits: float32 (N, V), the logits from which the tokens were chosen.
    """

    token_ids: np.ndarray
    logits: np.ndarray


class PhoneWriter:
    """Generates text with a TFLite file's `generation.tflite_signatures`.

    Args:
        model: The file, loaded in the LiteRT interpreter.

    Raises:
        ArtifactError: A required signature is missing.
    """

    def __init__(self, model: TFLiteRunner):
        self.model = model
        self.where = model.where
        self.prefills = _sizes(model.signatures, PREFILL)
        self.prefixes = _sizes(model.signatures, PREFIX)
        if DECODE not in model.signatures or not (self.prefills or self.prefixes):
            raise ArtifactError(
                f"{self.where}: its signatures are {', '.join(model.signatures)}; "
                f"expected {DECODE} and one or more of {PREFILL}N or {PREFIX}N. Use a "
                "file that was exported of a model that generates text"
            )
        shapes = model.shapes(DECODE)
        self._shapes = {n: of for n, of in shapes.items() if n.startswith(CACHE)}
        self.slots = next(iter(self._shapes.values()))[2]
        self._kept: dict[str, np.ndarray] = {}
        self._source: dict[str, np.ndarray] = {}
        self._length = 0

    @property
    def longest_prompt(self) -> int:
        """The maximum number of prompt tokens."""
        return max(self.prefixes, default=self.slots)

    def write(
        self,
        token_ids: Ids,
        max_new_tokens: int,
        *,
        source: Ids | None = None,
        stop_token_ids: Iterable[int] = (),
    ) -> TFLiteGeneration:
        """Generates tokens greedily.

        Args:
            token_ids: The prompt; for an encoder-decoder, the first tokens of the
                decoder.
            max_new_tokens: The maximum number of new tokens; fewer if the cache has
                less room after the prompt.
            source: The input of the encoder, for an encoder-decoder.
            stop_token_ids: Tokens that end generation.

        Raises:
            DataError: The prompt or the source is empty, or too long for the file.
        """
        ends, written, logits = set(stop_token_ids), [], []
        scores = self.begin(token_ids, source)
        room = self.slots + 1 - len(token_ids)  # the last token needs no cache slot
        for left in range(min(max_new_tokens, room), 0, -1):
            logits.append(scores)
            written.append(int(scores.argmax()))
            if written[-1] in ends:
                break
            if left > 1:
                scores = self.read(written[-1])
        shape = len(written), len(scores)
        return TFLiteGeneration(
            np.array(written, np.int32), np.reshape(np.array(logits, np.float32), shape)
        )

    def begin(self, token_ids: Ids, source: Ids | None = None) -> np.ndarray:
        """Resets the cache and processes a prompt.

        Args:
            token_ids: As in `write`.
            source: As in `write`.

        Returns:
            float32 (V,), the logits of the next token.

        Raises:
            DataError: As `write`.
        """
        ids = self._checked(token_ids, "the prompt", self.longest_prompt)
        self._source = self._encoded(source)
        self._kept = {name: np.zeros(of, "f4") for name, of in self._shapes.items()}
        if self.prefixes:
            size = min(size for size in self.prefixes if size >= len(ids))
            self._kept = self.model.run(
                f"{PREFIX}{size}",
                tokens=_padded(ids, size),
                padding_mask=_padded(np.ones_like(ids), size),
            )
        else:
            self._prefill(ids[:-1])
        self._length = len(ids) - 1
        return self.read(int(ids[-1]))

    def read(self, token: int) -> np.ndarray:
        """Processes one more token and returns the next logits, float32 (V,).

        Raises:
            DataError: The cache is full.
        """
        if self._length >= self.slots:
            raise DataError(
                f"the cache of {self.where} holds {self.slots} tokens and is full. "
                "Start a new text, or export with a larger export.tflite_cache"
            )
        answers = self._call(DECODE, np.array([token]), self._length)
        self._length += 1
        return answers["logits"][0, 0]

    def _prefill(self, ids: np.ndarray) -> None:
        done = 0
        while done < len(ids):
            size = _piece(self.prefills, len(ids) - done)
            piece = ids[done : done + size]
            self._call(f"{PREFILL}{size}", piece, done, size)
            done += len(piece)

    def _call(
        self, signature: str, ids: np.ndarray, first: int, size: int = 1
    ) -> dict[str, np.ndarray]:
        """Processes tokens and writes them to the cache from position `first` on."""
        # Positions of padding are 0, as in LiteRT-LM.
        positions = _padded(np.arange(first, first + len(ids)), size)[0]
        inputs = {"tokens": _padded(ids, size), "input_pos": positions}
        answers = self.model.run(signature, **inputs, **self._kept, **self._source)
        self._kept = {name: answers[name] for name in self._shapes}
        return answers

    def _encoded(self, source: Ids | None) -> dict[str, np.ndarray]:
        """Returns the encoder's outputs and mask, which each decoder call takes."""
        if ENCODE not in self.model.signatures:
            if source is not None:
                raise DataError(f"{self.where} has no encoder to read a source with")
            return {}
        length = self.model.shapes(ENCODE)["token_ids"][1]
        ids = self._checked([] if source is None else source, "the source", length)
        mask = _padded(np.ones_like(ids), length)
        kept = self.model.run(ENCODE, token_ids=_padded(ids, length), padding_mask=mask)
        return {**kept, "padding_mask": mask}

    def _checked(self, ids: Ids, what: str, most: int) -> np.ndarray:
        if not 1 <= len(ids) <= most:
            raise DataError(
                f"{what} has {len(ids)} tokens; {self.where} reads from 1 to {most} at "
                "once. A text without tokens begins with the token that begins or ends "
                "a document; shorten a longer one"
            )
        return np.asarray(ids, np.int32)


def _sizes(signatures: Iterable[str], prefix: str) -> list[int]:
    """Returns the sizes that follow a prefix in signature names, in ascending order.

    Example:
    >>> _sizes(["decode", "prefill_64", "prefill_16"], "prefill_")
    [16, 64]
    """
    found = (name.removeprefix(prefix) for name in signatures if prefix in name)
    return sorted(int(size) for size in found if size.isdecimal())


def _piece(sizes: Sequence[int], number: int) -> int:
    """Returns the chunk size to use for the remaining number of tokens.

    Example:
    >>> [_piece([16, 64], number) for number in (70, 63, 3)]
    [64, 16, 16]
    """
    return max((size for size in sizes if size <= number), default=min(sizes))


def _padded(ids: np.ndarray, size: int) -> np.ndarray:
    """Pads ids with zeros on the right: int32 (1, size)."""
    return np.pad(ids, (0, size - len(ids)))[np.newaxis].astype(np.int32)
