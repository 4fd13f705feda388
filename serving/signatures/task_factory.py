"""What exported models can be asked: one file for each kind of task."""

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
from transbeam.serving.base.trained_run import Trained
from transbeam.serving.signatures.base.interface import Task
from transbeam.serving.signatures.causal import Continuation
from transbeam.serving.signatures.classification import Classification
from transbeam.serving.signatures.embedding import Embedding
from transbeam.serving.signatures.image_classification import ImageClassification
from transbeam.serving.signatures.masked import FillMask
from transbeam.serving.signatures.prefix import PrefixContinuation
from transbeam.serving.signatures.regression import Regression
from transbeam.serving.signatures.sentence_pairs import as_classifier
from transbeam.serving.signatures.seq2seq import Translation
from transbeam.serving.signatures.span_corruption import FillGaps
from transbeam.serving.signatures.span_qa import Answering
from transbeam.serving.signatures.token_classification import Tagging


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
