"""`objective`: every kind of prediction a model can be trained for."""

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

Objective = (
    MaskedConfig
    | SentencePairsConfig
    | CausalConfig
    | PrefixConfig
    | SpanCorruptionConfig
    | Seq2SeqConfig
    | TextToTextConfig
    | ClassificationConfig
    | PairClassificationConfig
    | RegressionConfig
    | PairRegressionConfig
    | TokenClassificationConfig
    | SpanQAConfig
    | ImageClassificationConfig
)
