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
    """Largest difference allowed from the Keras model; beyond it the export fails."""

    saved_model: float = option(
        "Largest difference of a log-probability, a number or a vector entry.",
        default=1e-4,
        minimum=0.0,
    )
    bfloat16: float = option(
        "The same for a SavedModel in bfloat16.", default=0.1, minimum=0.0
    )
    float32: float = option("The same for float32 TFLite.", default=1e-3, minimum=0.0)
    float16: float = option("The same for float16 TFLite.", default=0.02, minimum=0.0)
    weight_int8: float = option(
        "The same for TFLite with weights of 8 bits, as a root mean square.",
        default=0.1,
        minimum=0.0,
    )
    dynamic_int8: float = option(
        "The same where products are rounded to 8 bits, too.",
        default=0.25,
        minimum=0.0,
    )
    int8: float = option("The same for int8 throughout.", default=0.5, minimum=0.0)
    weight_int4: float = option(
        "The same for weights of 4 bits.", default=0.75, minimum=0.0
    )
    dynamic_int4: float = option(
        "The same where products are rounded to 8 bits, too.", default=0.75, minimum=0.0
    )
    # Its name is of an older version, whose runs must remain readable.
    dynamic_int8_agreement: float = option(
        "Smallest share of [MASK]s, or of texts, with the same first guess as Keras, "
        "of each variant in whole numbers; a tie within its tolerance counts.",
        default=0.9,
        minimum=0.0,
        maximum=1.0,
    )
    metric_loss: float = option(
        "What a TFLite file may lose of the accuracy that Keras has on validation "
        "records: 0.01 is one point.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
    perplexity_loss: float = option(
        "The share by which its perplexity may be higher.", default=0.02, minimum=0.0
    )


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """SavedModel for TF Serving, TFLite for phones."""

    version: int = option("Version folder TF Serving reads.", default=1, minimum=1)
    dtype: Literal["float32", "bfloat16"] = option(
        "What the SavedModel computes in. bfloat16 is half as large, and faster on "
        "some processors (`transbeam check --machine`); its answers are rounded.",
        default="float32",
    )
    top_k: int = option("Guesses returned for each [MASK].", default=5, minimum=1)
    embedding_pooling: Literal["mean", "first", "max"] = option(
        "How a vector of a text is made of those of its tokens: their mean, the first "
        "one, that of [CLS], or the largest of each entry.",
        default="mean",
    )
    embedding_length: int | None = option(
        "Tokens of a text that its vector is made of at most, [CLS] and [SEP] among "
        "them. Left out: model.max_sequence_length.",
        default=None,
        minimum=3,
    )
    normalize_embeddings: bool = option(
        "Vectors of length 1, so that the product of two is their cosine.",
        default=False,
    )
    tflite: tuple[Variant, ...] = option(
        "TFLite files to make: float32; half as large float16; a quarter weight_int8, "
        "dynamic_int8, the fastest on a phone's processor, and int8, calibrated on the "
        "corpus; an eighth weight_int4 and dynamic_int4.",
        default=("float32", "dynamic_int8"),
    )
    tflite_calibration: int = option(
        "Training texts or images by which ranges of int8 are found and weights are "
        "rounded to 4 bits; 16 at least.",
        default=128,
        minimum=1,
    )
    tflite_tables: Literal["int4", "int8"] = option(
        "What weight_int4 and dynamic_int4 keep tables of embeddings in. Much of what "
        "they lose they lose there; with int8 they lose less, and are larger.",
        default="int4",
    )
    tflite_masks: int = option(
        "[MASK]s a single call of the TFLite model can ask for.", default=8, minimum=1
    )
    tflite_prefill: tuple[int, ...] = option(
        "Sizes of the pieces in which the TFLite file of a model that writes reads a "
        "prompt; none is larger than its cache.",
        default=(16, 64),
    )
    tflite_cache: int | None = option(
        "Most tokens of a text that such a file reads and writes. Left out: "
        "model.max_sequence_length.",
        default=None,
        minimum=2,
    )
    litert_lm: bool = option(
        "Also pack each TFLite file of a causal model and its tokenizer into a "
        ".litertlm for LiteRT-LM.",
        default=False,
    )
    tflite_text: bool = option(
        "With `--target phone` also files that take a text, with a WordPiece tokenizer "
        "inside, for runtimes that have tensorflow_text's ops.",
        default=False,
    )
    mediapipe: bool = option(
        "With `--target phone` also files for MediaPipe's TextClassifier, of "
        "`classification`, or TextEmbedder, of `masked`.",
        default=False,
    )
    tolerance: ToleranceConfig = option("How exact.", default=ToleranceConfig)
    examples: tuple[str, ...] = option(
        "Texts to try the export on, shown at the end of a run: with a [MASK] for a "
        "masked language model, an <extra_id_0> for one of span corruption; of a pair "
        "both, or a context and a question, with a tab (`\\t`) between. Of a model of "
        "images paths of JPEG or PNG files.",
        default=(),
    )

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
        ConfigError: An example has no mask or sentinel to fill, or is not a pair.
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
        ConfigError: The objective needs a pair, and the example is not one.
    """
    if len(input_names(objective)) == 1:
        return (example,)
    texts = tuple(example.split("\t"))
    if len(texts) != 2:
        raise ConfigError(
            f"export.examples: {example!r} is no pair: objective.kind={objective.kind} "
            'asks about two texts. Put one tab between them: "first\\tsecond"'
        )
    return texts
