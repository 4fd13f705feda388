"""The vectors of pieces in the embedding table: neighbors, analogies, a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.linear_head import read_kernel
from transbeam.model.inspect.vector_geometry import find_neighbors, solve_analogies
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.heads.token_classes import (
    TOKEN_CLASSES,
    classify_pieces,
)
from transbeam.trainer.analysis.vectors.occurrences import flatten_texts

# `a` is to `b` as `c` is to the last; each is a piece of large English vocabularies.
ANALOGIES = tuple(
    tuple(line.split())
    for line in (
        "man woman king queen",
        "man woman father mother",
        "man woman brother sister",
        "he she his her",
        "France Paris Italy Rome",
        "France Paris Germany Berlin",
        "France French Spain Spanish",
        "good better bad worse",
        "big bigger small smaller",
        "go went see saw",
        "walk walked talk talked",
        "car cars dog dogs",
        "one first two second",
    )
)


@dataclass(frozen=True)
class PieceVectors:
    """The embeddings of the ordinary pieces.

    Attributes:
        ids: int32 (V',). The pieces' ids.
        vectors: float32 (V', D).
        counts: int64 (V',). How often each piece occurs in the texts.
    """

    ids: np.ndarray
    vectors: np.ndarray
    counts: np.ndarray

    def find_rows(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the rows of some pieces."""
        order = np.argsort(self.ids)
        return order[np.searchsorted(self.ids[order], ids)]


def read_piece_vectors(context: AnalysisContext) -> PieceVectors:
    """Reads the embedding table of a model.

    Raises:
        ConfigError: The table is quantized or has an adapter.
    """
    layer = context.model.get_layer("token_embedding")
    table = read_kernel(layer, "embeddings")
    ids = context.tokenizer.ordinary_ids
    counts = np.bincount(flatten_texts(context).ids, minlength=len(table))
    return PieceVectors(ids, table[ids], counts[ids])


def find_frequent(context: AnalysisContext, number: int) -> list[int]:
    """Returns the ids of the most frequent pieces without punctuation."""
    classes = classify_pieces(context.tokenizer, context.texts.rows, 0.0)
    columns = [TOKEN_CLASSES.index(name) for name in ("rare", "content")]
    counts = np.bincount(flatten_texts(context).ids, minlength=len(classes))
    counts = counts * classes[:, columns].any(axis=1)
    order = np.argsort(-counts, kind="stable")[:number]
    return [int(index) for index in order if counts[index]]


def find_piece(tokenizer: Tokenizer, word: str) -> int | None:
    """Returns the id of the piece that is a whole word; None if there is none."""
    ids = tokenizer.tokenize([tokenizer.word_prefix + word]).flat_values.numpy()
    if len(ids) != 1 or ids[0] not in tokenizer.ordinary_ids:
        return None
    return int(ids[0])


def tabulate_neighbors(
    pieces: PieceVectors, tokenizer: Tokenizer, ids: Sequence[int], k: int = 10
) -> pa.Table:
    """Makes a table with the nearest pieces of some pieces, by cosine."""
    found = find_neighbors(pieces.vectors, pieces.find_rows(ids), k)
    size = found.ids.shape[1]
    names = np.array(tokenizer.pieces, object)
    return pa.table(
        {
            "piece": pa.array(np.repeat(names[list(ids)], size), pa.string()),
            "rank": pa.array(np.tile(np.arange(1, size + 1), len(ids)), pa.int32()),
            "neighbor": pa.array(names[pieces.ids[found.ids.ravel()]], pa.string()),
            "cosine": found.cosines.ravel(),
        }
    )


def tabulate_analogies(
    pieces: PieceVectors, tokenizer: Tokenizer
) -> tuple[pa.Table, int]:
    """Completes the analogies whose four words are pieces.

    Returns:
        A table with a row per analogy: `a`, `b`, `c`, `expected`, the `found` piece and
        the `rank` of the expected one, from 1; and the number of analogies left out.
    """
    rows, asked = [], []
    for words in ANALOGIES:
        ids = [find_piece(tokenizer, word) for word in words]
        known = [index for index in ids if index is not None]
        if len(set(known)) == len(words):
            rows.append(words)
            asked.append(pieces.find_rows(known))
    columns = {
        name: pa.array([words[number] for words in rows], pa.string())
        for number, name in enumerate(("a", "b", "c", "expected"))
    }
    found, ranks = [], []
    if asked:
        asked = np.array(asked)
        solved = solve_analogies(pieces.vectors, asked[:, :3], len(pieces.ids) - 3)
        found = [tokenizer.pieces[pieces.ids[row]] for row in solved.ids[:, 0]]
        ranks = 1 + np.argmax(solved.ids == asked[:, 3:], axis=1)
    columns["found"] = pa.array(found, pa.string())
    columns["rank"] = pa.array(ranks, pa.int32())
    return pa.table(columns), len(ANALOGIES) - len(rows)


def check_words(words: Sequence[str]) -> None:
    """Checks words that a user asks for.

    Raises:
        ConfigError: A word is empty.
    """
    for word in words:
        if not word.strip():
            raise ConfigError(f"words: found {word!r}, expected a word, such as bank")
