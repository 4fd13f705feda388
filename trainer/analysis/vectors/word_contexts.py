"""Words in several contexts, in every layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from transbeam.model.inspect.vector_geometry import mean_cosine, principal_components
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.vectors.layer_geometry import OccurrenceSample
from transbeam.trainer.analysis.vectors.occurrences import (
    Occurrence,
    collect_occurrences,
    find_word,
    flatten_texts,
    show_occurrences,
    token_rows,
)

# Without words of the user's, and of the occurrences of each.
_WORDS, _OCCURRENCES = 4, 50


@dataclass(frozen=True)
class WordContexts:
    """A word in several contexts.

    Attributes:
        word: The word.
        occurrences: Its occurrences, at least two.
        states: float32 (L, N, D), their vectors in each layer.
    """

    word: str
    occurrences: tuple[Occurrence, ...]
    states: np.ndarray

    @property
    def similarities(self) -> np.ndarray:
        """The mean cosine of different occurrences in each layer, float64 (L,)."""
        return np.array([mean_cosine(states) for states in self.states])


def find_contexts(
    context: AnalysisContext, words: Sequence[str], sample: OccurrenceSample
) -> tuple[list[WordContexts], list[str]]:
    """Finds the occurrences of the words, and explains which have too few."""
    generator = np.random.default_rng(context.seed)
    found: dict[str, list[Occurrence]] = {}
    notes = []
    if words:
        tokens = flatten_texts(context)
        for word in words:
            every = find_word(tokens, context.tokenizer, word)
            if len(every) < 2:
                notes.append(
                    f"{word!r}: occurs {len(every)} times in the texts; contexts are "
                    "compared from two on"
                )
                continue
            order = generator.permutation(len(every))[:_OCCURRENCES]
            found[word] = [every[number] for number in sorted(order)]
    else:
        most = sorted(sample.types, key=lambda index: -len(sample.types[index]))
        pieces = context.tokenizer.pieces
        found = {pieces[index]: sample.types[index] for index in most[:_WORDS]}
    every = [one for occurrences in found.values() for one in occurrences]
    if not every:
        return [], notes
    _, states = collect_occurrences(context, every, "words in contexts")
    ends = np.cumsum([len(x) for x in found.values()])[:-1]
    contexts = [
        WordContexts(word, tuple(occurrences), part)
        for (word, occurrences), part in zip(
            found.items(), np.split(states, ends, axis=1), strict=True
        )
    ]
    return contexts, notes


def tabulate_words(
    layers: Sequence[str], found: Sequence[WordContexts], baselines: Sequence[float]
) -> pa.Table:
    """Makes a table with a row for each word and layer."""
    similarities = np.concatenate([contexts.similarities for contexts in found])
    return pa.table(
        {
            "word": [contexts.word for contexts in found for _ in layers],
            "layer": list(layers) * len(found),
            "occurrences": [len(x.occurrences) for x in found for _ in layers],
            "self_similarity": similarities,
            "baseline": np.tile(baselines, len(found)),
            "adjusted": similarities - np.tile(baselines, len(found)),
        }
    )


def tabulate_contexts(
    context: AnalysisContext, layers: Sequence[str], found: Sequence[WordContexts]
) -> pa.Table:
    """Makes a table with a row for each word, layer and occurrence."""
    tables = []
    for contexts in found:
        shown = show_occurrences(
            context.tokenizer, token_rows(context), contexts.occurrences
        )
        for layer, states in zip(layers, contexts.states, strict=True):
            coordinates = principal_components(states, 2).coordinates
            number = len(shown)
            tables.append(
                pa.table(
                    {
                        "word": [contexts.word] * number,
                        "layer": [layer] * number,
                        "text": [one.text for one in contexts.occurrences],
                        "position": [one.start for one in contexts.occurrences],
                        "context": shown,
                        "first": coordinates[:, 0],
                        "second": coordinates[:, 1],
                    }
                )
            )
    return pa.concat_tables(tables)
