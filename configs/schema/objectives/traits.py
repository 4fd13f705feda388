"""Fixed properties of each kind of objective, in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from transbeam.configs.base.templates import template_fields
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ByKind,
    Objective,
    TextPairObjective,
)
from transbeam.configs.schema.objectives.supervised import (
    SOURCE_FIELDS,
    CompletionConfig,
    Seq2SeqConfig,
    TextToTextConfig,
)

_TEXT = ("text",)
_PAIR = ("text", "second_text")
_IMAGE = ("image_bytes",)
_CLASSES = ("label", "classes", "scores")
_GENERATED = ("generated_text", "token_ids", "length", "finished")
_WORDS = ("words", "starts", "ends")
_FRAME = ("begin", "end")
_REVIEW = ("A quiet film that stays with you.",)
_TWO = ("Two dogs run in a park.", "An animal is outside.")
_BEGINNING = ("It returns",)
_READERS = ("encoder", "decoder")


@dataclass(frozen=True, kw_only=True)
class ObjectiveTraits:
    """Fixed properties of a kind of objective.

    Attributes:
        sentence: A sentence that describes a trained model to its users; `{n}` is the
            number of its labels or tokens.
        models: Each `model.kind` that the objective trains; the first is the usual one.
        fields: Fields that a document must have, by the names of `Document`. Empty if
            they depend on the objective's templates: see `fields_needed`.
        pieces: Special pieces that the tokenizer must have, by the names of
            `SpecialIds`.
        inputs: Inputs of the exported model's default signature.
        example: An example value for each of `inputs`, for an example request.
        has_segments: True if records have two segments; otherwise all tokens belong to
            the first.
        in_buckets: True if records may have `data.layout.kind=bucketed`.
        text_alone: True if the objective learns from texts alone, without labels, so
            that near-duplicate documents may be dropped.
        outputs: Outputs that the default signature always has, except `truncated`.
        activation: Converts scores to probabilities; None for models that predict
            numbers or vectors.
        ids_signature: The signature of an export that returns the model's scores for
            ids or pixels; None if no signature returns all scores.
    """

    sentence: str
    models: tuple[Literal["encoder", "decoder", "seq2seq"], ...] = ("encoder",)
    fields: tuple[str, ...] = _TEXT
    pieces: tuple[Literal["begin", "end", "mask"], ...] = _FRAME
    inputs: tuple[str, ...] = _TEXT
    example: tuple[str, ...]
    has_segments: bool = False
    in_buckets: bool = False
    text_alone: bool = False
    outputs: tuple[str, ...]
    activation: Literal["softmax", "sigmoid"] | None = "softmax"
    ids_signature: str | None


_TABLE: ByKind[ObjectiveTraits] = {
    "masked": ObjectiveTraits(
        sentence="A masked language model with {n} tokens: it predicts the token "
        "behind each `[MASK]`, and embeds texts.",
        pieces=("mask",),
        example=("It returns a [MASK].",),
        outputs=("fills", "scores"),
        in_buckets=True,
        text_alone=True,
        ids_signature="fill_mask",
    ),
    "sentence_pairs": ObjectiveTraits(
        sentence="A classifier of pairs of texts with {n} labels.",
        pieces=(*_FRAME, "mask"),
        inputs=_PAIR,
        example=("It was late.", "They went home."),
        outputs=_CLASSES,
        has_segments=True,
        text_alone=True,
        ids_signature=None,  # scores for masks are not exported
    ),
    "causal": ObjectiveTraits(
        sentence="A language model: it continues a text.",
        models=("decoder",),
        pieces=("end",),
        example=_BEGINNING,
        outputs=_GENERATED,
        in_buckets=True,
        text_alone=True,
        ids_signature="logits_ids",
    ),
    "prefix": ObjectiveTraits(
        sentence="A language model: it continues a text.",
        models=("decoder",),
        pieces=("end",),
        example=_BEGINNING,
        outputs=_GENERATED,
        in_buckets=True,
        text_alone=True,
        ids_signature="logits_ids",
    ),
    "span_corruption": ObjectiveTraits(
        sentence="It fills the gaps of a text.",
        models=("seq2seq",),
        pieces=("end",),
        example=("It <extra_id_0> the name of the <extra_id_1>.",),
        outputs=(*_GENERATED, "gaps", "fills"),
        text_alone=True,
        ids_signature="logits_ids",
    ),
    "seq2seq": ObjectiveTraits(
        sentence="It generates a text from a text.",
        models=("seq2seq",),
        fields=("text", "target_text"),
        pieces=("end",),
        example=_TWO[:1],
        outputs=_GENERATED,
        ids_signature="logits_ids",
    ),
    "text_to_text": ObjectiveTraits(
        sentence="It generates a text from a text.",
        models=("seq2seq",),
        fields=(),
        pieces=("end",),
        inputs=_PAIR,
        example=_TWO,
        outputs=_GENERATED,
        ids_signature="logits_ids",
    ),
    "completion": ObjectiveTraits(
        sentence="A language model that answers prompts.",
        models=("decoder",),
        fields=(),
        pieces=("end",),
        inputs=_PAIR,
        example=_TWO,
        outputs=_GENERATED,
        ids_signature="logits_ids",
    ),
    "dialogue": ObjectiveTraits(
        sentence="A language model that replies in conversations.",
        models=("decoder",),
        fields=("messages",),
        pieces=("end",),
        example=("What is a tensor?",),
        outputs=_GENERATED,
        ids_signature="logits_ids",
    ),
    "classification": ObjectiveTraits(
        sentence="A classifier of texts with {n} labels.",
        models=_READERS,
        fields=("text", "label"),
        example=_REVIEW,
        outputs=_CLASSES,
        in_buckets=True,
        ids_signature="classify_ids",
    ),
    "multi_label_classification": ObjectiveTraits(
        sentence="A classifier of texts with {n} labels, of which any number may hold.",
        models=_READERS,
        fields=("text", "label"),
        example=_REVIEW,
        outputs=("labels", "classes", "scores"),
        in_buckets=True,
        activation="sigmoid",
        ids_signature="classify_ids",
    ),
    "pair_classification": ObjectiveTraits(
        sentence="A classifier of pairs of texts with {n} labels.",
        models=_READERS,
        fields=(*_PAIR, "label"),
        inputs=_PAIR,
        example=_TWO,
        outputs=_CLASSES,
        has_segments=True,
        in_buckets=True,
        ids_signature="classify_ids",
    ),
    "regression": ObjectiveTraits(
        sentence="It predicts a number for a text.",
        models=_READERS,
        fields=("text", "label"),
        example=_REVIEW,
        outputs=("score",),
        in_buckets=True,
        activation=None,
        ids_signature="regress_ids",
    ),
    "pair_regression": ObjectiveTraits(
        sentence="It predicts a number for a pair of texts.",
        models=_READERS,
        fields=(*_PAIR, "label"),
        inputs=_PAIR,
        example=_TWO,
        outputs=("score",),
        has_segments=True,
        in_buckets=True,
        activation=None,
        ids_signature="regress_ids",
    ),
    "token_classification": ObjectiveTraits(
        sentence="It predicts one of {n} tags for each word of a text.",
        models=_READERS,
        fields=("words", "tags"),
        example=("Ada Lovelace was born in London.",),
        outputs=(*_WORDS, "tags", "scores"),
        in_buckets=True,
        ids_signature="tag_ids",
    ),
    "span_qa": ObjectiveTraits(
        sentence="It finds the answer to a question in a text.",
        fields=(*_PAIR, "answers"),
        inputs=("context", "question"),
        example=("Ada Lovelace was born in London.", "Where was Ada born?"),
        outputs=("answer", "start", "end", "score", "no_answer_score"),
        has_segments=True,
        ids_signature="read_ids",
    ),
    "contrastive_pairs": ObjectiveTraits(
        sentence="It embeds texts: similar texts have similar vectors.",
        models=_READERS,
        fields=_PAIR,
        example=_TWO[:1],
        outputs=("embedding",),
        in_buckets=True,
        activation=None,
        ids_signature=None,  # the loss compares the vectors of several texts
    ),
    "image_classification": ObjectiveTraits(
        sentence="A classifier of images with {n} labels.",
        fields=("image", "label"),
        pieces=(),
        inputs=_IMAGE,
        example=("image.jpg",),
        outputs=_CLASSES,
        ids_signature="classify_pixels",
    ),
}


# For iteration over all kinds.
TRAITS = cast(Mapping[str, ObjectiveTraits], _TABLE)


def traits(objective: Objective) -> ObjectiveTraits:
    """Returns the fixed properties of an objective.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> traits(CausalConfig()).models
    ('decoder',)
    """
    return _TABLE[objective.kind]


def text_templates(objective: TextPairObjective) -> tuple[str, str]:
    """Returns the templates of the text that a model reads and of the one it writes.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import Seq2SeqConfig
    >>> text_templates(Seq2SeqConfig())
    ('{text}', '{target_text}')
    """
    match objective:
        case Seq2SeqConfig():
            return "{text}", "{target_text}"
        case TextToTextConfig():
            return objective.source, objective.target
        case CompletionConfig():
            return objective.prompt_template, objective.answer


def fields_needed(objective: Objective) -> tuple[str, ...]:
    """Returns the fields that a document must have, by the names of `Document`.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import RegressionConfig
    >>> fields_needed(RegressionConfig())
    ('text', 'label')
    """
    if isinstance(objective, TextPairObjective):
        fields = map(template_fields, ("source", "target"), text_templates(objective))
        return tuple(dict.fromkeys(field for found in fields for field in found))
    if isinstance(objective, ContrastivePairsConfig) and objective.hard_negatives:
        return (*traits(objective).fields, "negative_text")
    return traits(objective).fields


def input_names(objective: Objective) -> tuple[str, ...]:
    """Returns the inputs of the default signature of a model trained for an objective.

    Example:
    >>> input_names(TextToTextConfig(source="{second_text} Answer: {text}"))
    ('text', 'second_text')
    """
    if isinstance(objective, TextPairObjective):
        fields = template_fields("source", text_templates(objective)[0])
        return tuple(name for name in SOURCE_FIELDS if name in fields)
    return traits(objective).inputs
