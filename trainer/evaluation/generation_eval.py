"""Evaluation by generation: generates texts for a split, and scores them."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import template_parts
from transbeam.configs.cli.console import Console
from transbeam.configs.cli.progress import Bar
from transbeam.configs.loader.objective_requirements import gives_field
from transbeam.configs.schema.evaluation import TextScore
from transbeam.configs.schema.objectives.objective import (
    AnswerObjective,
    SpanObjective,
    TextPairObjective,
)
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.objectives.traits import text_templates
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.objectives.base.text_templates import filled
from transbeam.pipeline.objectives.dialogue import last_replies
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.batch_generate import write_answers
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.generated_text import (
    BLEU,
    ChrF,
    References,
    Rouge,
    WordF1,
    as_references,
)
from transbeam.trainer.metrics.language_modeling import TokenAccuracy


@dataclass(frozen=True)
class Answered:
    """Documents with generated or extracted texts and references.

    Attributes:
        origins: Source and offset of each document.
        texts: The model's inputs.
        references: The references of each text: the target text of the corpus, or
            the texts of the column `references`.
        answers: The generated or extracted texts.
        scores: Scores by name, each with a 95% confidence interval.
        signatures: The settings of each score that has several variants, such as BLEU.
    """

    origins: Sequence[tuple[str, int]]
    texts: Sequence[str]
    references: Sequence[Sequence[str]]
    answers: Sequence[str]
    scores: Mapping[str, Interval]
    signatures: Mapping[str, str]

    def save(self, path: Path) -> None:
        """Writes a line of JSON for each document, in the order of the corpus."""
        columns = (self.origins, self.texts, self.references, self.answers)
        lines = [
            json.dumps(
                {
                    "source": source,
                    "offset": offset,
                    "text": text,
                    "target": targets[0],
                    **({"references": list(targets)} if len(targets) > 1 else {}),
                    "answer": answer,
                },
                ensure_ascii=False,
            )
            for (source, offset), text, targets, answer in zip(*columns, strict=True)
        ]
        write_atomically(path, "".join(f"{line}\n" for line in lines))


def writes_answers(config: RunConfig) -> bool:
    """Returns whether an evaluation of the run generates texts and scores them."""
    answers = isinstance(config.objective, AnswerObjective)
    return answers and bool(config.evaluation.text_scores)


def extracts_answers(config: RunConfig) -> bool:
    """Returns whether an evaluation of the run scores parts of its texts as texts.

    Answers that are quoted from their texts, as those of SQuAD, have their own scores.
    """
    if not isinstance(config.objective, SpanObjective):
        return False
    sources = config.data.source, config.data.validation_source, config.evaluation.test
    in_other_words = any(gives_field(source, "target_text") for source in sources)
    return in_other_words and bool(config.evaluation.text_scores)


def check_libraries(config: RunConfig) -> None:
    """Checks before the evaluation that the libraries of the text scores are installed.

    Raises:
        ConfigError: The library of a score is missing.
    """
    if not (writes_answers(config) or extracts_answers(config)):
        return
    try:
        signatures(config.evaluation.text_scores)
    except ConfigError as error:
        raise ConfigError(
            f"evaluation.text_scores={list(config.evaluation.text_scores)}: {error}. "
            "With `text_scores: []` no answers are written, and nothing is needed"
        ) from error


# Generates an output for each text, and advances the progress bar.
Write = Callable[[Sequence[bytes], Bar], list[str]]


def answer(
    config: RunConfig,
    held_out: ValidationDocuments,
    tokenizer: Tokenizer,
    write: Write,
    console: Console,
) -> Answered:
    """Generates texts for the documents of a split, and scores them.

    Args:
        config: The run.
        held_out: The documents, of which the first `evaluation.answers` are used.
        tokenizer: The run's tokenizer, whose chat template renders conversations.
        write: The generation function.
        console: Shows progress.
    """
    most = config.evaluation.answers
    texts, references = (
        column[:most] for column in texts_and_references(config, held_out, tokenizer)
    )
    with console.progress("writing answers", len(texts), "texts") as progress:
        answers = write(texts, progress)
    several = held_out.values("references")[:most]
    golds = [
        given or [target.decode("utf-8")]
        for given, target in zip(several, references, strict=True)
    ]
    return score_answers(config, held_out, texts, answers, golds)


def score_answers(
    config: RunConfig,
    held_out: ValidationDocuments,
    texts: Sequence[bytes],
    answers: Sequence[str],
    golds: Sequence[Sequence[str]],
) -> Answered:
    """Scores texts that answer the first documents of a split.

    Args:
        config: The run, whose `evaluation.text_scores` are computed.
        held_out: The documents.
        texts: The model's inputs in UTF-8.
        answers: The model's answers.
        golds: The references of each answer.
    """
    names = config.evaluation.text_scores
    origins = zip(held_out.values("source"), held_out.values("offset"), strict=True)
    return Answered(
        list(origins)[: len(answers)],
        [text.decode("utf-8") for text in texts],
        golds,
        answers,
        text_scores(answers, golds, names, config.seed),
        signatures(names, {len(gold) for gold in golds}),
    )


def written_by_model(
    config: RunConfig, trained: keras.Model, tokenizer: Tokenizer
) -> Write:
    """Builds the generation function of a run's own model.

    Args:
        config: The run, whose `evaluation` section has the generation settings.
        trained: The model for packed records, with its weights.
        tokenizer: The run's tokenizer.
    """

    def write(texts: Sequence[bytes], progress: Bar) -> list[str]:
        model = build_unpacked(config, trained, tokenizer.vocabulary_size)
        return write_answers(texts, model, tokenizer, config, progress)

    return write


def build_unpacked(
    config: RunConfig, trained: keras.Model, vocabulary_size: int
) -> keras.Model:
    """Builds the model for single documents, with the weights of `trained`."""
    model = build_model(
        config.model,
        config.objective,
        vocabulary_size,
        dtype=config.training.precision,
        seed=config.seed,
    )
    model.set_weights(trained.get_weights())
    return model


def texts_and_references(
    config: RunConfig, held_out: ValidationDocuments, tokenizer: Tokenizer
) -> tuple[list[bytes], list[bytes]]:
    """Model inputs and reference outputs of each document, UTF-8.

    Of a conversation, the reference is the assistant's last turn.
    """
    if isinstance(config.objective, DialogueConfig):
        return last_replies(held_out.values("messages"), tokenizer, config)
    assert isinstance(config.objective, TextPairObjective)
    source, target = (
        _filled(held_out, template) for template in text_templates(config.objective)
    )
    return source, target


def _filled(held_out: ValidationDocuments, template: str) -> list[bytes]:
    batches = held_out.batches(
        *[field for _, field in template_parts(template) if field]
    )
    return [text for batch in batches for text in filled(batch, template)]


TextMetric = BLEU | ChrF | Rouge | WordF1


def signatures(
    names: Sequence[TextScore], references: Collection[int] = (1,)
) -> dict[str, str]:
    """Each score's settings, as a signature string in the library's own notation.

    Args:
        names: Names of the scores.
        references: The different numbers of references of the texts.

    Raises:
        ConfigError: The library of a score is missing.

    Example:
    >>> signatures(["bleu", "exact_match"])
    {'bleu': 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2...'}
    """
    metrics = {name: _metric(name) for name in names}
    number = "var" if len(references) > 1 else str(next(iter(references)))
    return {
        name: of.signature.replace("nrefs:1|", f"nrefs:{number}|")
        for name, of in metrics.items()
        if of is not None
    }


def text_scores(
    answers: Sequence[str],
    references: Sequence[References],
    names: Sequence[TextScore],
    seed: int,
) -> dict[str, Interval]:
    """Computes scores, each with a 95% confidence interval over the texts.

    Args:
        answers: The generated texts.
        references: The reference of each generated text, or several, of which the best
            one counts.
        names: Names of the scores; `rouge` gives four.
        seed: Seed of the bootstrap.

    Example:
    >>> found = text_scores(["a dog", "cats"], ["a dog", "cat"], ["exact_match"], 1)
    >>> found["exact_match"].score
    0.5
    """
    found: dict[str, Interval] = {}
    for name in names:
        metric = _metric(name)
        if metric is None:
            pairs = zip(answers, references, strict=True)
            right = np.array([a in as_references(golds) for a, golds in pairs])
            metric = TokenAccuracy()
            statistics = metric.statistics(right, np.ones(len(right), bool))
        else:
            statistics = metric.statistics(answers, references)
        scores = intervals(statistics, metric.scores, seed)
        if len(scores) == 1:
            (interval,) = scores.values()
            found[name] = interval
        else:
            found |= scores
    return found


def _metric(name: TextScore) -> TextMetric | None:
    """Returns the metric with a given name; None for `exact_match`."""
    match name:
        case "bleu":
            return BLEU()
        case "bleu_lowercase":
            return BLEU(lowercase=True)
        case "chrf":
            return ChrF()
        case "rouge":
            return Rouge()
        case "f1":
            return WordF1()
        case "exact_match":
            return None
