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
    FillsObjective,
    ImageObjective,
    PooledObjective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
)
from transbeam.configs.schema.objectives.supervised import (
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checker import Judge
from transbeam.serving.parity.embedding import EmbeddingJudge
from transbeam.serving.parity.generation import WritingJudge
from transbeam.serving.parity.image import ImageJudge
from transbeam.serving.parity.masked import MaskedJudge
from transbeam.serving.parity.prefix import PrefixJudge
from transbeam.serving.parity.span_corruption import GapsJudge
from transbeam.serving.parity.span_qa import AnsweringJudge
from transbeam.serving.parity.text import TextJudge
from transbeam.serving.parity.token_classification import TaggingJudge
from transbeam.serving.signatures.sentence_pairs import as_classifier


def judge_of(trained: TrainedRun, run_folder: Path) -> Judge:
    """Returns the parity checker for a model's objective.

    Args:
        trained: The Keras model.
        run_folder: Its validation records are among the compared texts.
    """
    objective = trained.config.objective
    if isinstance(objective, FillsObjective):
        kind = MaskedJudge if trained.has_head else EmbeddingJudge
        return kind.from_run(trained, run_folder)
    if isinstance(objective, SentencePairsConfig):
        return TextJudge.from_run(as_classifier(trained), run_folder)
    if isinstance(objective, ImageObjective):
        return ImageJudge.from_run(trained, run_folder)
    if isinstance(objective, PooledObjective):
        return TextJudge.from_run(trained, run_folder)
    if isinstance(objective, TokenChoiceObjective):
        return TaggingJudge.from_run(trained, run_folder)
    if isinstance(objective, SpanObjective):
        return AnsweringJudge.from_run(trained, run_folder)
    if isinstance(objective, TextObjective):
        return _writing_judge(objective).from_run(trained, run_folder)
    assert_never(objective)


def _writing_judge(objective: TextObjective) -> type[WritingJudge]:
    match objective:
        case PrefixConfig():
            return PrefixJudge
        case SpanCorruptionConfig():
            return GapsJudge
        case CausalConfig() | Seq2SeqConfig() | TextToTextConfig():
            return WritingJudge
