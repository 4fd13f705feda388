"""Returns the parity checker of a model by the kind of its objective."""

from pathlib import Path

from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ImageClassificationConfig,
    Seq2SeqConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.parity.base.parity_checker import Judge
from transbeam.serving.parity.embedding import EmbeddingJudge
from transbeam.serving.parity.generation import WritingJudge
from transbeam.serving.parity.image_classification import ImageJudge
from transbeam.serving.parity.masked import MaskedJudge
from transbeam.serving.parity.pooled import PooledJudge
from transbeam.serving.parity.prefix import PrefixJudge
from transbeam.serving.parity.span_corruption import GapsJudge
from transbeam.serving.parity.span_qa import AnsweringJudge
from transbeam.serving.parity.token_classification import TaggingJudge
from transbeam.serving.signatures.sentence_pairs import as_classifier


def judge_of(trained: TrainedRun, run_folder: Path) -> Judge:
    """Returns the parity checker for a model's objective.

    Args:
        trained: The Keras model.
        run_folder: Its validation records are among the compared texts.
    """
    match trained.config.objective:
        case MaskedConfig():
            kind = MaskedJudge if trained.has_head else EmbeddingJudge
            return kind.from_run(trained, run_folder)
        case SentencePairsConfig():
            return PooledJudge.from_run(as_classifier(trained), run_folder)
        case TokenClassificationConfig():
            return TaggingJudge.from_run(trained, run_folder)
        case SpanQAConfig():
            return AnsweringJudge.from_run(trained, run_folder)
        case ImageClassificationConfig():
            return ImageJudge.from_run(trained, run_folder)
        case PrefixConfig():
            return PrefixJudge.from_run(trained, run_folder)
        case SpanCorruptionConfig():
            return GapsJudge.from_run(trained, run_folder)
        case CausalConfig() | Seq2SeqConfig() | TextToTextConfig():
            return WritingJudge.from_run(trained, run_folder)
        case _:
            return PooledJudge.from_run(trained, run_folder)
