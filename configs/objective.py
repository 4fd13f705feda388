"""`objective`: every kind of prediction a model can be trained for."""

from transbeam.configs.language_modelling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.supervised import (
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
