"""Exported models are held against Keras: one file for each kind of answer."""

from pathlib import Path

from transbeam.configs.objective import (
    CausalConfig,
    ImageClassificationConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    Seq2SeqConfig,
    SpanCorruptionConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.serving.gate.answering import AnsweringJudge
from transbeam.serving.gate.embedding import EmbeddingJudge
from transbeam.serving.gate.gaps import GapsJudge
from transbeam.serving.gate.images import ImageJudge
from transbeam.serving.gate.judge import Judge
from transbeam.serving.gate.masked import MaskedJudge
from transbeam.serving.gate.pooled import PooledJudge
from transbeam.serving.gate.prefix import PrefixJudge
from transbeam.serving.gate.tagging import TaggingJudge
from transbeam.serving.gate.writing import WritingJudge
from transbeam.serving.tasks.sentence_pairs import as_classifier
from transbeam.serving.trained import Trained


def judge_of(trained: Trained, run_folder: Path) -> Judge:
    """Who knows what Keras answers to a task's questions.

    Args:
        trained: The Keras model.
        run_folder: Its validation records are among the texts.
    """
    match trained.config.objective:
        case MaskedConfig():
            kind = MaskedJudge if trained.has_head else EmbeddingJudge
            return kind.of(trained, run_folder)
        case SentencePairsConfig():
            return PooledJudge.of(as_classifier(trained), run_folder)
        case TokenClassificationConfig():
            return TaggingJudge.of(trained, run_folder)
        case SpanQAConfig():
            return AnsweringJudge.of(trained, run_folder)
        case ImageClassificationConfig():
            return ImageJudge.of(trained, run_folder)
        case PrefixConfig():
            return PrefixJudge.of(trained, run_folder)
        case SpanCorruptionConfig():
            return GapsJudge.of(trained, run_folder)
        case CausalConfig() | Seq2SeqConfig() | TextToTextConfig():
            return WritingJudge.of(trained, run_folder)
        case _:
            return PooledJudge.of(trained, run_folder)
