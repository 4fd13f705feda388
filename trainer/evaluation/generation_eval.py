"""Answers to the documents of a split, beside those that the corpus has."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.templates import template_parts
from transbeam.configs.cli.console import Console
from transbeam.configs.cli.progress import Bar
from transbeam.configs.schema.objectives.objective import TextPairObjective
from transbeam.configs.schema.objectives.supervised import (
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.pipeline.evaluation_set import HeldOut
from transbeam.pipeline.objectives.text_to_text import filled
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.batch_generate import write_answers
from transbeam.trainer.evaluation.text_scores import signatures, text_scores
from transbeam.trainer.metrics.confidence_intervals import Interval


@dataclass(frozen=True)
class Answered:
    """Documents with the answers that a model wrote.

    Attributes:
        origins: Source and offset of each.
        texts: What the model read.
        references: What it should have written, as the corpus has it.
        answers: What it wrote.
        scores: By name, each with an interval of 95%.
        signatures: How scores were counted, where there are several ways.
    """

    origins: Sequence[tuple[str, int]]
    texts: Sequence[str]
    references: Sequence[str]
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
                    "target": reference,
                    "answer": answer,
                },
                ensure_ascii=False,
            )
            for (source, offset), text, reference, answer in zip(*columns, strict=True)
        ]
        write_atomically(path, "".join(f"{line}\n" for line in lines))


def writes_answers(config: RunConfig) -> bool:
    """Whether a run's model answers with texts, and these are to be scored."""
    objective = config.objective
    is_pair = isinstance(objective, TextPairObjective)
    return is_pair and bool(config.evaluation.text_scores)


def check_libraries(config: RunConfig) -> None:
    """Looks for what scores texts, before anything is done.

    Raises:
        ConfigError: A library that counts a score is not there.
    """
    if not writes_answers(config):
        return
    try:
        signatures(config.evaluation.text_scores)
    except ConfigError as error:
        raise ConfigError(
            f"evaluation.text_scores={list(config.evaluation.text_scores)}: {error}. "
            "With `text_scores: []` no answers are written, and nothing is needed"
        ) from error


# From the texts of documents, and how far it is, to their answers.
Write = Callable[[Sequence[bytes], Bar], list[str]]


def answer(
    config: RunConfig, held_out: HeldOut, write: Write, console: Console
) -> Answered:
    """Lets a model answer the documents of a split, and scores what it wrote.

    Args:
        config: The run's.
        held_out: The documents; `evaluation.answers` says how many of them.
        write: The model.
        console: Shows how far it is.
    """
    wanted = config.evaluation
    texts, references = (
        column[: wanted.answers] for column in texts_and_references(config, held_out)
    )
    origins = zip(held_out.values("source"), held_out.values("offset"), strict=True)
    with console.progress("writing answers", len(texts), "texts") as progress:
        answers = write(texts, progress)
    decoded = [reference.decode("utf-8") for reference in references]
    return Answered(
        list(origins)[: wanted.answers],
        [text.decode("utf-8") for text in texts],
        decoded,
        answers,
        text_scores(answers, decoded, wanted.text_scores, config.seed),
        signatures(wanted.text_scores),
    )


def written_by_model(
    config: RunConfig, trained: keras.Model, tokenizer: Tokenizer
) -> Write:
    """What answers as `evaluation` says.

    Args:
        config: The run's.
        trained: The model on packed records, with its weights.
        tokenizer: The run's.
    """

    def write(texts: Sequence[bytes], progress: Bar) -> list[str]:
        model = build_model(
            config.model,
            config.objective,
            tokenizer.vocabulary_size,
            dtype=config.training.precision,
            seed=config.seed,
        )
        model.set_weights(trained.get_weights())
        return write_answers(texts, model, tokenizer, config, progress)

    return write


def texts_and_references(
    config: RunConfig, held_out: HeldOut
) -> tuple[list[bytes], list[bytes]]:
    """What the model reads and what it should write, of each document, UTF-8."""
    objective = config.objective
    if isinstance(objective, TextToTextConfig):
        source, target = (
            _filled(held_out, template)
            for template in (objective.source, objective.target)
        )
        return source, target
    return held_out.texts(), held_out.texts("target_text")


def _filled(held_out: HeldOut, template: str) -> list[bytes]:
    fields = [field for _, field in template_parts(template) if field]
    batches = held_out.batches(*fields)
    return [text for batch in batches for text in filled(batch, template)]
