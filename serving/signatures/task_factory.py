"""Returns the signatures of a model by the kind of its objective."""

from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    Seq2SeqConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.serving.base.trained_run import TrainedRun
from transbeam.serving.signatures.base.interface import SignatureTask
from transbeam.serving.signatures.causal import CausalTask
from transbeam.serving.signatures.classification import ClassificationTask
from transbeam.serving.signatures.embedding import EmbeddingTask
from transbeam.serving.signatures.image_classification import ImageClassificationTask
from transbeam.serving.signatures.masked import MaskedTask
from transbeam.serving.signatures.prefix import PrefixTask
from transbeam.serving.signatures.regression import RegressionTask
from transbeam.serving.signatures.sentence_pairs import as_classifier
from transbeam.serving.signatures.seq2seq import Seq2SeqTask
from transbeam.serving.signatures.span_corruption import SpanCorruptionTask
from transbeam.serving.signatures.span_qa import SpanQATask
from transbeam.serving.signatures.token_classification import TokenClassificationTask


def task_of(trained: TrainedRun) -> SignatureTask:  # noqa: C901 (one case for each)
    """Returns the signatures for the objective that a model was trained for."""
    match trained.config.objective:
        case ClassificationConfig() | PairClassificationConfig():
            return ClassificationTask(trained)
        case SentencePairsConfig():
            return ClassificationTask(as_classifier(trained))
        case RegressionConfig() | PairRegressionConfig():
            return RegressionTask(trained)
        case TokenClassificationConfig():
            return TokenClassificationTask(trained)
        case SpanQAConfig():
            return SpanQATask(trained)
        case ImageClassificationConfig():
            return ImageClassificationTask(trained)
        case CausalConfig():
            return CausalTask(trained)
        case PrefixConfig():
            return PrefixTask(trained)
        case SpanCorruptionConfig():
            return SpanCorruptionTask(trained)
        case Seq2SeqConfig() | TextToTextConfig():
            return Seq2SeqTask(trained)
        case MaskedConfig():
            return MaskedTask(trained) if trained.has_head else EmbeddingTask(trained)
