"""`objective`: the union of all kinds, grouped by the type of their predictions.

Only this module groups the kinds of objectives by the type of their predictions, such
as a class or a text; each group is a union of config classes. Code that depends on the
type of predictions checks the unions of config classes with `isinstance` and ends in
`assert_never`. Code that depends on the kind of objective uses a `ByKind` table. When a
kind of objective is added to this module, the type checker reports each `assert_never`
that the kind can reach and each table in which it is missing.
"""

from typing import Generic, TypedDict, TypeVar

from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    PrefixConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    CompletionConfig,
    DialogueConfig,
    ImageClassificationConfig,
    MultiLabelClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    Seq2SeqConfig,
    SpanQAConfig,
    TextToTextConfig,
    TokenClassificationConfig,
)

# Pieces for the masks of a text.
FillsObjective = MaskedConfig
# One class of several for each input.
ChoiceObjective = (
    ClassificationConfig | PairClassificationConfig | ImageClassificationConfig
)
# Any number of labels for each input.
LabelSetObjective = MultiLabelClassificationConfig
# A text, written token by token.
TextObjective = (
    CausalConfig
    | PrefixConfig
    | SpanCorruptionConfig
    | Seq2SeqConfig
    | TextToTextConfig
    | CompletionConfig
    | DialogueConfig
)
# A number for each input.
NumberObjective = RegressionConfig | PairRegressionConfig
# One class of several for each word.
TokenChoiceObjective = TokenClassificationConfig
# The place of an answer in a text.
SpanObjective = SpanQAConfig
# A vector for each text.
EmbeddingObjective = ContrastivePairsConfig

# A model of sentence pairs learns to fill masks and to choose a class, and has a form
# of its own; it is exported as a classifier of pairs.
Objective = (
    FillsObjective
    | SentencePairsConfig
    | ChoiceObjective
    | LabelSetObjective
    | TextObjective
    | NumberObjective
    | TokenChoiceObjective
    | SpanObjective
    | EmbeddingObjective
)

# An answer for each word of a text.
WordsObjective = TokenChoiceObjective
# Numbers, which have no classes to choose among.
NumericObjective = NumberObjective
# A score for each of `labels`.
LabeledObjective = ChoiceObjective | LabelSetObjective
# Probabilities of classes, which can be calibrated.
ClassObjective = SentencePairsConfig | LabeledObjective | TokenChoiceObjective
# One answer for each input, from one vector of it.
PooledObjective = SentencePairsConfig | LabeledObjective | NumberObjective
# Kinds that pool each input to one vector, for an answer or as the answer.
VectorObjective = PooledObjective | EmbeddingObjective
# Kinds whose inputs are images.
ImageObjective = ImageClassificationConfig
# Kinds that train an encoder and a decoder.
Seq2SeqObjective = SpanCorruptionConfig | Seq2SeqConfig | TextToTextConfig
# Kinds whose records hold a text and the text that answers it.
TextPairObjective = Seq2SeqConfig | TextToTextConfig | CompletionConfig
# Kinds that train a decoder alone.
DecoderObjective = CausalConfig | PrefixConfig | CompletionConfig | DialogueConfig
# Kinds whose generated texts are compared with references.
AnswerObjective = TextPairObjective | DialogueConfig

T = TypeVar("T")


class ByKind(TypedDict, Generic[T]):
    """A table with a row for each kind of objective; none may be missing."""

    masked: T
    sentence_pairs: T
    causal: T
    prefix: T
    span_corruption: T
    seq2seq: T
    text_to_text: T
    completion: T
    dialogue: T
    classification: T
    multi_label_classification: T
    pair_classification: T
    regression: T
    pair_regression: T
    token_classification: T
    span_qa: T
    contrastive_pairs: T
    image_classification: T
