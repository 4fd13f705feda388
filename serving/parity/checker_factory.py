"""Returns the parity checker of a model by the kind of its objective."""

from pathlib import Path
from typing import assert_never

from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    FillsObjective,
    ImageObjective,
    PooledObjective,
    SpanObjective,
    TextObjective,
    WordsObjective,
)
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checker import ParityChecker
from transbeam.serving.parity.causal import CausalParityChecker
from transbeam.serving.parity.completion import CompletionParityChecker
from transbeam.serving.parity.dialogue import DialogueParityChecker
from transbeam.serving.parity.embedding import EmbeddingParityChecker
from transbeam.serving.parity.generation import GenerationParityChecker
from transbeam.serving.parity.image import ImageParityChecker
from transbeam.serving.parity.masked import MaskedParityChecker
from transbeam.serving.parity.prefix import PrefixParityChecker
from transbeam.serving.parity.span_corruption import SpanCorruptionParityChecker
from transbeam.serving.parity.span_qa import SpanQAParityChecker
from transbeam.serving.parity.text import TextParityChecker
from transbeam.serving.parity.words import WordsParityChecker
from transbeam.serving.signatures.sentence_pairs import as_classifier


def make_parity_checker(trained: TrainedRun, run_folder: Path) -> ParityChecker:
    """Returns the parity checker for a model's objective.

    Args:
        trained: The Keras model.
        run_folder: The run's folder; its validation records are among the compared
            texts.
    """
    objective = trained.config.objective
    if not trained.has_head:
        return EmbeddingParityChecker.from_run(trained, run_folder)
    if isinstance(objective, FillsObjective):
        return MaskedParityChecker.from_run(trained, run_folder)
    if isinstance(objective, SentencePairsConfig):
        return TextParityChecker.from_run(as_classifier(trained), run_folder)
    if isinstance(objective, ImageObjective):
        return ImageParityChecker.from_run(trained, run_folder)
    if isinstance(objective, PooledObjective):
        return TextParityChecker.from_run(trained, run_folder)
    if isinstance(objective, WordsObjective):
        return WordsParityChecker.from_run(trained, run_folder)
    if isinstance(objective, SpanObjective):
        return SpanQAParityChecker.from_run(trained, run_folder)
    if isinstance(objective, EmbeddingObjective):
        return EmbeddingParityChecker.from_run(trained, run_folder)
    if isinstance(objective, TextObjective):
        return _generation_checker(objective).from_run(trained, run_folder)
    assert_never(objective)


def _generation_checker(objective: TextObjective) -> type[GenerationParityChecker]:
    match objective:
        case PrefixConfig():
            return PrefixParityChecker
        case CompletionConfig():
            return CompletionParityChecker
        case DialogueConfig():
            return DialogueParityChecker
        case SpanCorruptionConfig():
            return SpanCorruptionParityChecker
        case CausalConfig():
            return CausalParityChecker
        case Seq2SeqConfig() | TextToTextConfig():
            return GenerationParityChecker
