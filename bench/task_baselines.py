"""Baselines without a neural network for the tasks of `configs/tasks/`.

    python -m bench.task_baselines NAME...

`NAME` is the name of a file of `configs/tasks/`, such as `rte`; the data is where the
file says, and the splits are those of the file. What is chosen, a threshold or the
weights of words, is chosen on training and dev documents; the scores are those of test,
with an interval of 95% by the bootstrap over documents.

- `rte`, `mrpc`: a pair is positive if its texts share enough words.
- `scitldr`: the title, the first sentence of the abstract, and the sentence with the
  highest ROUGE-1 to a reference, which no extractive method can exceed by much.
- `xquad`: the longest span of words that the question and the paragraph share, and the
  sentence that shares the most words with the question.
- `four_tasks`, and the files with one label for each text or pair: the most frequent
  label, and logistic regression on TF-IDF of words and pairs of words.
"""

import argparse
import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bench.pairs import heading, row
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import Source
from transbeam.configs.schema.table_sources import JsonlSourceConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.sources.corpus_files import list_files, list_sources
from transbeam.pipeline.sources.work_units import plan_units, read_unit
from transbeam.trainer.metrics.classification import ClassificationScores
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.generated_text import Rouge
from transbeam.trainer.metrics.squad import SpanAnswerScores

TASKS = Path(__file__).parents[1] / "configs/tasks"
WORD = re.compile(r"\w+")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
UNIT_BYTES = 4_000_000
SEED = 1

Scores = dict[str, Interval]


def main() -> None:
    """Prints a table for each task."""
    parser = argparse.ArgumentParser(
        prog="bench.task_baselines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME")
    for name in parser.parse_args().names:
        config = task_config(name)
        print(f"\n### {name}\n")
        table = BASELINES.get(name, classes)(config)
        for number, (what, scores) in enumerate(table):
            if number == 0:
                print(heading("baseline", *scores))
            numbers = map(shown, scores.values())
            print(row(what, *numbers), flush=True)


def shown(of: Interval) -> str:
    return f"{of.score:.3f} ({of.low:.3f}-{of.high:.3f})"


Table = Iterator[tuple[str, Scores]]


def task_config(name: str) -> RunConfig:
    """The file of a task, to read its sources.

    The model that the run begins with, and its tokenizer, need not be there.
    """
    without = ["model.init_from=null", "tokenizer={kind: byte_bpe}"]
    return load_run(TASKS / f"{name}.yaml", without)


def documents(source: Source | None) -> list[tuple[str | None, Document]]:
    """The documents of a source, each with the name of its part of a mixture."""
    assert source is not None
    units = plan_units(list_files(source), source, UNIT_BYTES)
    names = [part.name for part in list_sources(source)]
    return [
        (names[unit.part], item)
        for unit in units
        for item in read_unit(unit, source)
        if isinstance(item, Document)
    ]


def known_documents(config: RunConfig) -> list[tuple[str | None, Document]]:
    """The documents of training and dev."""
    data = config.data
    given = [data.source]
    if data.validation_source is not None:
        given.append(data.validation_source)
    return [document for source in given for document in documents(source)]


# === Pairs ===


def overlap(config: RunConfig) -> Table:
    """Pairs are positive if their texts share enough, by three similarities."""
    asked_of = documents(config.evaluation.test)
    test = [document for _, document in asked_of]
    # Parts of other names are of other tasks, which teach a network beside this one.
    names = {name for name, _ in asked_of}
    known = [document for name, document in known_documents(config) if name in names]
    positive = "entailment" if known[0].label.endswith("entailment") else "1"
    right, truth = (
        np.array([document.label == positive for document in each])
        for each in (known, test)
    )
    metric = ClassificationScores((f"not {positive}", positive))
    for what, similarity in similarities(known).items():
        learned, asked = (
            np.array([similarity(*words_of(document)) for document in each])
            for each in (known, test)
        )
        thresholds = np.unique(learned)
        accuracies = [np.mean((learned >= t) == right) for t in thresholds]
        best = thresholds[int(np.argmax(accuracies))]
        statistics = metric.statistics((asked >= best).astype(int), truth.astype(int))
        scores = intervals(statistics, metric.scores, SEED)
        yield (
            f"{what}, at least {best:.3f}",
            {"accuracy": scores["accuracy"], "F1": scores[f"f1_{positive}"]},
        )


def words_of(document: Document) -> tuple[set[str], set[str]]:
    """The words of both texts in lower case."""
    texts = document.text, document.second_text
    first, second = (set(WORD.findall(text.lower())) for text in texts)
    return first, second


Similarity = Callable[[set[str], set[str]], float]


def similarities(known: Sequence[Document]) -> dict[str, Similarity]:
    """Shares of common words; the last one counts a word by its rarity."""
    texts = [words for document in known for words in words_of(document)]
    count = Counter(word for words in texts for word in words)

    def weight(words: set[str]) -> float:
        return sum(math.log((len(texts) + 1) / (count[word] + 1)) for word in words)

    return {
        "words of the second text in the first": lambda a, b: len(a & b) / len(b),
        "shared words of all words": lambda a, b: len(a & b) / len(a | b),
        "the first, by the words' rarity": lambda a, b: weight(a & b) / weight(b),
    }


# === Texts ===


def summaries(config: RunConfig) -> Table:
    """The title, the first sentence, and the best one."""
    source = config.evaluation.test
    assert isinstance(source, JsonlSourceConfig)
    # The documents have the sentences joined.
    with gzip.open(source.path, "rt", encoding="utf-8") as lines:
        papers = [json.loads(line) for line in lines]
    parts = [paper["source"] for paper in papers]
    references = [paper["target"] for paper in papers]
    metric = Rouge()

    def scored(answers: Sequence[str]) -> Scores:
        statistics = metric.statistics(answers, references)
        return intervals(statistics, metric.scores, SEED)

    yield "title", scored([paper["title"] for paper in papers])
    yield "first sentence", scored([sentences[0] for sentences in parts])
    yield "last sentence", scored([sentences[-1] for sentences in parts])
    best = []
    for sentences, golds in zip(parts, references, strict=True):
        each = metric.statistics(sentences, [golds] * len(sentences))
        best.append(sentences[int(np.argmax(each[:, 0]))])
    yield "the sentence nearest to a reference", scored(best)


def questions(config: RunConfig) -> Table:
    """The longest shared span, and the sentence with the most shared words."""
    test = [document for _, document in documents(config.evaluation.test)]
    golds = [[text for _, text in document.answers] for document in test]
    metric = SpanAnswerScores()

    def scored(answers: Sequence[str]) -> Scores:
        statistics = metric.statistics(answers, golds)
        return intervals(statistics, metric.scores, SEED)

    spans = [longest_shared_span(d.text, d.second_text) for d in test]
    yield "longest shared span", scored(spans)
    nearest = []
    for document in test:
        asked = set(WORD.findall(document.second_text.lower()))
        shares = [
            (len(asked & set(WORD.findall(sentence.lower()))), -len(sentence), sentence)
            for sentence in SENTENCE.split(document.text)
        ]
        nearest.append(max(shares)[2])
    yield "sentence with the most shared words", scored(nearest)


def longest_shared_span(text: str, question: str) -> str:
    """The first of the longest spans of a text's words that the question has, too.

    Example:
    >>> longest_shared_span("In the park, the old dog ran.", "Who saw the old dog?")
    'the old dog'
    """
    words = list(WORD.finditer(text))
    asked = WORD.findall(question.lower())
    before = [0] * (len(asked) + 1)
    length = end = 0
    for index, word in enumerate(words):
        now = [0] * (len(asked) + 1)
        for place, other in enumerate(asked):
            if word[0].lower() != other:
                continue
            now[place + 1] = before[place] + 1
            if now[place + 1] > length:
                length, end = now[place + 1], index
        before = now
    if not length:
        return ""
    return text[words[end - length + 1].start() : words[end].end()]


# === Classes ===


def classes(config: RunConfig) -> Table:
    """The most frequent label, and TF-IDF, of each part."""
    known, test = known_documents(config), documents(config.evaluation.test)
    for part in dict.fromkeys(name for name, _ in test):
        learned = [document for name, document in known if name == part]
        asked = [document for name, document in test if name == part]
        labels = tuple(sorted({document.label for document in learned}))
        frequent = Counter(document.label for document in learned).most_common(1)[0][0]
        guesses = {
            "most frequent label": [frequent] * len(asked),
            "TF-IDF": tf_idf(learned, asked),
        }
        for what, answers in guesses.items():
            metric = ClassificationScores(labels)
            statistics = metric.statistics(
                np.array([labels.index(answer) for answer in answers]),
                np.array([labels.index(document.label) for document in asked]),
            )
            scores = intervals(statistics, metric.scores, SEED)
            name = f"{part}: {what}" if part else what
            yield name, {"accuracy": scores["accuracy"]}


def tf_idf(learned: Sequence[Document], asked: Sequence[Document]) -> list[str]:
    """The labels that logistic regression gives; five folds choose its strength."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2),
        LogisticRegression(max_iter=2000),
    )
    strengths = {"logisticregression__C": [0.3, 1.0, 3.0, 10.0, 30.0]}
    search = GridSearchCV(model, strengths, cv=5)
    search.fit([joined(d) for d in learned], [d.label for d in learned])
    return list(search.predict([joined(d) for d in asked]))


def joined(document: Document) -> str:
    """The text or both texts."""
    return f"{document.text} {document.second_text}".strip()


BASELINES: dict[str, Callable[[RunConfig], Table]] = {
    "rte": overlap,
    "mrpc": overlap,
    "scitldr": summaries,
    "xquad": questions,
}


if __name__ == "__main__":
    main()
