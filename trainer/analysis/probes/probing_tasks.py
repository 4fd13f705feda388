"""Tasks of probes: words or texts with labels, and control tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.table_sources import ConllSourceConfig
from transbeam.pipeline.documents.document import (
    BrokenFile,
    Document,
    Rejected,
    SourceFile,
    Span,
)
from transbeam.pipeline.sources.readers import conll
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.syntax.syntax import tokenize_treebank
from transbeam.trainer.analysis.syntax.word_texts import WordTexts, tokenize_words

PART_OF_SPEECH, RELATION = "part of speech", "dependency relation"
ENTITY, LENGTH = "entity", "text length"
# Fewer sentences or texts tell nothing.
FEWEST_TEXTS = 20
_LENGTH_CLASSES = 6
UNSPECIFIED = "_"


@dataclass(frozen=True)
class ProbingTask:
    """Texts whose words have labels.

    Attributes:
        name: The task's name.
        words: The texts.
        labels: The labels of each text's words; `_` where there is none.
        types: The form of each word, on which its label in the control task depends;
            None for a task without control.
    """

    name: str
    words: WordTexts
    labels: tuple[tuple[str, ...], ...]
    types: tuple[tuple[str, ...], ...] | None

    @property
    def classes(self) -> list[str]:
        """The labels, sorted."""
        return sorted(set(chain(*self.labels)) - {UNSPECIFIED})

    def sample(self, most: int, seed: int) -> "ProbingTask":
        """Returns the task with random texts, in random order.

        Args:
            most: Largest number of words; at least one text is taken.
            seed: Seed of the order.
        """
        order = np.random.default_rng(seed).permutation(len(self.labels))
        sizes = np.cumsum([len(self.labels[number]) for number in order])
        chosen = order[: max(1, int(np.searchsorted(sizes, most, side="right")))]

        def pick(values):
            return tuple(values[number] for number in chosen)

        words = self.words
        return ProbingTask(
            self.name,
            replace(
                words,
                texts=replace(words.texts, rows=pick(words.texts.rows), texts=None),
                memberships=pick(words.memberships),
                kept=pick(words.kept),
            ),
            pick(self.labels),
            None if self.types is None else pick(self.types),
        )


def draw_control_labels(
    types: Sequence[str], labels: np.ndarray, seed: int
) -> np.ndarray:
    """Draws a random label for each word type, from the distribution of the labels.

    A probe can only solve this control task by remembering words; a probe is selective
    if it is much better at the task itself.

    Args:
        types: The form of each of the `N` words.
        labels: int `(N,)`. The words' labels in the task, from 0.
        seed: Seed of the labels.

    Returns:
        int32 `(N,)`, the same for words of the same form.

    Example:
    >>> draw_control_labels(["a", "b", "a", "b"], np.array([0, 1, 2, 1]), seed=1)
    array([1, 2, 1, 2], dtype=int32)

    References:
        - [Hewitt and Liang, 2019](https://arxiv.org/abs/1909.03368), section 2
    """
    forms, index = np.unique(np.array(types, object).astype(str), return_inverse=True)
    shares = np.bincount(labels) / len(labels)
    generator = np.random.default_rng(seed)
    return generator.choice(len(shares), len(forms), p=shares)[index].astype(np.int32)


def read_treebank_tasks(context: AnalysisContext, path: Path) -> list[ProbingTask]:
    """Reads the parts of speech and relations of a treebank.

    Subtypes of relations, such as `poss` of `nmod:poss`, are dropped.

    Raises:
        DataError: The treebank cannot be read, or has too few sentences.
    """
    sentences, words = tokenize_treebank(context, path)
    _check_number(len(sentences), path)
    types = tuple(
        tuple(sentence.text[start:end] for start, end in sentence.offsets)
        for sentence in sentences
    )
    relations = tuple(
        tuple(relation.partition(":")[0] for relation in sentence.relations)
        for sentence in sentences
    )
    tags = tuple(sentence.tags for sentence in sentences)
    return [
        ProbingTask(PART_OF_SPEECH, words, tags, types),
        ProbingTask(RELATION, words, relations, types),
    ]


def read_entity_task(context: AnalysisContext, path: Path) -> ProbingTask:
    """Reads words with entity tags from columns, the first and the last of each line.

    Raises:
        DataError: The file cannot be read, a sentence is damaged, or there are too few.
    """
    documents = _read_documents(path)
    _check_number(len(documents), path)
    offsets = []
    for document in documents:
        ends = np.cumsum([len(word) + 1 for word in document.words]) - 1
        starts = [0, *(ends[:-1] + 1).tolist()]
        offsets.append(tuple(zip(starts, ends.tolist(), strict=True)))
    texts = [" ".join(document.words) for document in documents]
    words = tokenize_words(context, texts, offsets, path.name)
    kept = [documents[number] for number in words.kept]
    _check_number(len(kept), path)
    return ProbingTask(
        ENTITY,
        words,
        tuple(document.tags for document in kept),
        tuple(document.words for document in kept),
    )


def _read_documents(path: Path) -> list[Document]:
    try:
        file = SourceFile.at(path, path.name)
        source = ConllSourceConfig(path=str(path))
        found = list(conll.read(Span(file, 0, file.size), source))
    except (OSError, ValueError, BrokenFile) as error:  # a path with a NUL: ValueError
        raise DataError(
            f"{path}: cannot be read: {error}. Give words in columns, one per line, "
            "with the tag in the last column"
        ) from None
    documents = []
    for document in found:
        if isinstance(document, Rejected):
            raise DataError(
                f"{path}: byte {document.offset}: {document.reason}: "
                f"{document.excerpt}. Give words in columns, one per line, with the "
                "tag in the last column"
            )
        if document.words:
            documents.append(document)
    return documents


def make_length_task(context: AnalysisContext) -> ProbingTask | None:
    """Makes the task to tell how many tokens a text has, from the mean of its vectors.

    Classes are up to six ranges of lengths with about as many texts each.

    Returns:
        The task; None if there are too few texts, or all have the same length.
    """
    prefix = "encoder_" if "encoder_token_ids" in context.model.input else ""
    rows = context.texts.rows
    lengths = np.array([len(row[f"{prefix}token_ids"]) for row in rows])
    shares = np.arange(1, _LENGTH_CLASSES) / _LENGTH_CLASSES
    edges = np.unique(np.quantile(lengths, shares, method="lower"))
    classes = np.searchsorted(edges, lengths)
    if len(rows) < FEWEST_TEXTS or len(np.unique(classes)) < 2:
        return None
    highest = [*(str(edge) for edge in edges), "more"]
    words = WordTexts(
        replace(context.texts, texts=None),
        tuple(np.ones((length, 1), bool) for length in lengths),
        tuple(range(len(rows))),
        0,
    )
    labels = tuple((f"to {highest[number]}",) for number in classes)
    return ProbingTask(LENGTH, words, labels, None)


def _check_number(sentences: int, path: Path) -> None:
    if sentences < FEWEST_TEXTS:
        raise DataError(
            f"{path}: found {sentences} sentences that fit into the model, expected at "
            f"least {FEWEST_TEXTS}; probes are trained on most of them and tested on "
            "the others"
        )
