"""What exported models can be asked: one file for each kind of task."""

from transbeam.configs.objective import (
    CausalConfig,
    ClassificationConfig,
    ImageClassificationConfig,
    MaskedConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    PrefixConfig,
    RegressionConfig,
    SentencePairsConfig,
    Seq2SeqConfig,
    SpanCorruptionConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)
from transbeam.serving.tasks.answering import Answering
from transbeam.serving.tasks.classification import Classification
from transbeam.serving.tasks.continuation import Continuation
from transbeam.serving.tasks.embedding import Embedding
from transbeam.serving.tasks.gaps import FillGaps
from transbeam.serving.tasks.image_classification import ImageClassification
from transbeam.serving.tasks.interface import Task
from transbeam.serving.tasks.masked import FillMask
from transbeam.serving.tasks.prefix import PrefixContinuation
from transbeam.serving.tasks.regression import Regression
from transbeam.serving.tasks.sentence_pairs import as_classifier
from transbeam.serving.tasks.tagging import Tagging
from transbeam.serving.tasks.translation import Translation
from transbeam.serving.trained import Trained


def task_of(trained: Trained) -> Task:  # noqa: C901 (one case for each)
    """The task that a model was trained for."""
    match trained.config.objective:
        case ClassificationConfig() | PairClassificationConfig():
            return Classification(trained)
        case SentencePairsConfig():
            return Classification(as_classifier(trained))
        case RegressionConfig() | PairRegressionConfig():
            return Regression(trained)
        case TokenClassificationConfig():
            return Tagging(trained)
        case SpanQAConfig():
            return Answering(trained)
        case ImageClassificationConfig():
            return ImageClassification(trained)
        case CausalConfig():
            return Continuation(trained)
        case PrefixConfig():
            return PrefixContinuation(trained)
        case SpanCorruptionConfig():
            return FillGaps(trained)
        case Seq2SeqConfig() | TextToTextConfig():
            return Translation(trained)
        case MaskedConfig():
            return FillMask(trained) if trained.has_head else Embedding(trained)
