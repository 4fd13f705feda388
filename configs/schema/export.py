"""`export`: exported files, and their tolerances in the parity check."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.traits import input_names

Variant = Literal[
    "float32",
    "float16",
    "dynamic_int8",
    "int8",
    "weight_int8",
    "weight_int4",
    "dynamic_int4",
]


@dataclass(frozen=True, kw_only=True)
class ToleranceConfig:
    """Tolerances of exported models against the Keras model.

    The export fails if a difference exceeds its tolerance.
    """

    saved_model: float = option(1e-4, minimum=0.0)
    """Largest difference of a log-probability, a predicted number or a vector entry of
    the SavedModel.
    """

    bfloat16: float = option(0.1, minimum=0.0)
    """The same for a SavedModel in bfloat16."""

    float32: float = option(1e-3, minimum=0.0)
    """The same for float32 TFLite."""

    float16: float = option(0.02, minimum=0.0)
    """The same for float16 TFLite."""

    weight_int8: float = option(0.1, minimum=0.0)
    """The same for TFLite with 8-bit weights, as a root mean square."""

    dynamic_int8: float = option(0.25, minimum=0.0)
    """The same where matrix products are computed in 8 bits, too."""

    int8: float = option(0.5, minimum=0.0)
    """The same for TFLite with 8-bit weights and activations throughout."""

    weight_int4: float = option(0.75, minimum=0.0)
    """The same for TFLite with 4-bit weights."""

    dynamic_int4: float = option(0.75, minimum=0.0)
    """The same where matrix products are computed in 8 bits, too."""

    # Its name is of an older version, whose runs must remain readable.
    dynamic_int8_agreement: float = option(0.9, minimum=0.0, maximum=1.0)
    """Smallest share of [MASK]s, or of texts, for which a quantized variant has the
    same top prediction as Keras; ties within the tolerance count as equal.
    """

    metric_loss: float = option(0.01, minimum=0.0, maximum=1.0)
    """Largest loss of accuracy of a TFLite file against Keras, on validation records:
    0.01 is one percentage point.
    """

    perplexity_loss: float = option(0.02, minimum=0.0)
    """Largest relative increase of a TFLite file's perplexity against Keras."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Export of a SavedModel for TF Serving and of TFLite files for phones."""

    version: int = option(1, minimum=1)
    """Name of the version folder for TF Serving."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of the SavedModel's computations. bfloat16 halves its size and is
    faster on some processors (`transbeam check --machine`); its predictions are less
    precise.
    """

    top_k: int = option(5, minimum=1)
    """Number of predictions returned for each [MASK]."""

    embedding_pooling: Literal["mean", "first", "max", "last", "end_token"] = "mean"
    """Pooling of the token vectors into a text embedding: mean, first ([CLS]), or
    elementwise max. Of a decoder, in place of first: last, the last token of the text,
    or end_token, an end token that is added to each text. Embeddings of
    `contrastive_pairs` are pooled as in training, by model.pooler.
    """

    embedding_length: int | None = option(None, minimum=3)
    """Maximum number of tokens of a text embedding's input, special tokens included;
    longer texts are truncated. Left out: model.max_sequence_length.
    """

    normalize_embeddings: bool = False
    """Normalize embeddings to length 1, so that dot products are cosine similarities.
    """

    fitted_temperature: bool = False
    """Divide the logits of classes by the temperature that `transbeam evaluate` fitted
    to the validation split, so that the probabilities are calibrated. No predicted
    class changes.
    """

    fitted_thresholds: bool = False
    """Decide by the thresholds that `transbeam evaluate` fitted to the validation
    split: one for each label of multi_label_classification, in place of
    objective.threshold; for span_qa that of having no answer, above which the answer
    is empty.
    """

    tflite: tuple[Variant, ...] = ("float32", "dynamic_int8")
    """TFLite files to export: float32; float16 at half its size; weight_int8,
    dynamic_int8 (the fastest on a phone's CPU) and int8 (calibrated on the corpus) at a
    quarter; weight_int4 and dynamic_int4 at an eighth.
    """

    tflite_calibration: int = option(128, minimum=1)
    """Number of training texts or images for the calibration of int8 and of 4-bit
    weights; 16 at least.
    """

    tflite_tables: Literal["int4", "int8"] = "int4"
    """Format of embedding tables in weight_int4 and dynamic_int4. Much of their loss of
    accuracy comes from the tables; int8 reduces it, in a larger file.
    """

    tflite_masks: int = option(8, minimum=1)
    """Maximum number of [MASK]s in one call of the TFLite model."""

    tflite_prefill: tuple[int, ...] = (16, 64)
    """Prefill chunk sizes in tokens, in which the TFLite file of a generative model
    processes a prompt; none may exceed the cache.
    """

    tflite_cache: int | None = option(None, minimum=2)
    """Size of such a file's key-value cache in tokens: the maximum for prompt and
    generated text together. Left out: model.max_sequence_length.
    """

    litert_lm: bool = False
    """Also bundle each TFLite file of a causal model with its tokenizer into a
    .litertlm file for LiteRT-LM.
    """

    tflite_text: bool = False
    """With `--target phone`, also export files with text inputs and a built-in
    WordPiece tokenizer, for runtimes with tensorflow_text's ops.
    """

    mediapipe: bool = False
    """With `--target phone`, also export files for MediaPipe's TextClassifier
    (`classification`) or TextEmbedder (`masked`, `contrastive_pairs`).
    """

    tolerance: ToleranceConfig = option(ToleranceConfig)
    """Tolerances of the parity check."""

    examples: tuple[str, ...] = ()
    r"""Example inputs for the exported model, shown at the end of a run: with a [MASK]
    for masked, with an <extra_id_0> for span_corruption; for pairs both texts, or
    context and question, separated by a tab (`\t`); for images, paths of JPEG or PNG
    files.
    """

    def __post_init__(self) -> None:
        if not self.tflite_prefill or min(self.tflite_prefill) < 1:
            raise ConfigError(
                f"tflite_prefill={list(self.tflite_prefill)}: expected one size or "
                "more, each at least 1, such as [16, 64]"
            )


def check_examples(objective: Objective, examples: tuple[str, ...]) -> None:
    """Checks that examples are valid inputs of the exported model.

    Args:
        objective: The model's objective.
        examples: `export.examples`.

    Raises:
        ConfigError: An example lacks the mask or sentinel, or is not the pair of texts,
            that the objective requires.
    """
    for text in examples:
        if objective.kind == "masked" and "[MASK]" not in text:
            raise ConfigError(f"export.examples: {text!r} has no [MASK] to fill")
        if objective.kind == "span_corruption" and "<extra_id_0>" not in text:
            raise ConfigError(f"export.examples: {text!r} has no <extra_id_0> to fill")
        example_texts(objective, text)


def example_texts(objective: Objective, example: str) -> tuple[str, ...]:
    r"""Returns the texts of an example: one, or both of a pair.

    Args:
        objective: The model's objective.
        example: One of `export.examples`.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import PairRegressionConfig
    >>> example_texts(PairRegressionConfig(), "It rains.\tIs it wet?")
    ('It rains.', 'Is it wet?')

    Raises:
        ConfigError: The objective needs a pair of texts, and the example is not a pair.
    """
    if len(input_names(objective)) == 1:
        return (example,)
    texts = tuple(example.split("\t"))
    if len(texts) != 2:
        raise ConfigError(
            f"export.examples: {example!r} is no pair: objective.kind={objective.kind} "
            'reads two texts. Put one tab between them: "first\\tsecond"'
        )
    return texts
