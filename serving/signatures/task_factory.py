"""Signatures of each kind of trained model."""

from collections.abc import Callable
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
from transbeam.serving.signatures.base.interface import SignatureTask
from transbeam.serving.signatures.causal import CausalTask
from transbeam.serving.signatures.completion import CompletionTask
from transbeam.serving.signatures.dialogue import DialogueTask
from transbeam.serving.signatures.embedding import EmbeddingTask
from transbeam.serving.signatures.masked import MaskedTask
from transbeam.serving.signatures.pooled import PooledTask
from transbeam.serving.signatures.prefix import PrefixTask
from transbeam.serving.signatures.sentence_pairs import as_classifier
from transbeam.serving.signatures.seq2seq import Seq2SeqTask
from transbeam.serving.signatures.span_corruption import SpanCorruptionTask
from transbeam.serving.signatures.span_qa import SpanQATask
from transbeam.serving.signatures.words import WordsTask


def make_signature_task(trained: TrainedRun) -> SignatureTask:
    """Makes the signatures of a trained model, by the kind of its objective."""
    objective = trained.config.objective
    if not trained.has_head:
        return EmbeddingTask(trained)
    if isinstance(objective, FillsObjective):
        return MaskedTask(trained)
    if isinstance(objective, SentencePairsConfig):
        return PooledTask(as_classifier(trained))
    if isinstance(objective, PooledObjective):
        return PooledTask(trained)
    if isinstance(objective, WordsObjective):
        return WordsTask(trained)
    if isinstance(objective, SpanObjective):
        return SpanQATask(trained)
    if isinstance(objective, EmbeddingObjective):
        return EmbeddingTask(trained)
    if isinstance(objective, TextObjective):
        return _generation_task(objective)(trained)
    assert_never(objective)


def _generation_task(objective: TextObjective) -> Callable[[TrainedRun], SignatureTask]:
    match objective:
        case CausalConfig():
            return CausalTask
        case PrefixConfig():
            return PrefixTask
        case CompletionConfig():
            return CompletionTask
        case DialogueConfig():
            return DialogueTask
        case SpanCorruptionConfig():
            return SpanCorruptionTask
        case Seq2SeqConfig() | TextToTextConfig():
            return Seq2SeqTask
