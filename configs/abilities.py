"""What this version can do with a run beyond its records and its model.

Models of every objective and every tokenizer can be trained. Only some can be exported
so far. Who asks for more hears it before the work begins, and from `transbeam check`.
"""

from pathlib import Path

from configs.errors import ConfigError
from configs.run import RunConfig
from configs.tokenizer import PretrainedConfig

EXPORTED = (
    "masked",
    "sentence_pairs",
    "classification",
    "pair_classification",
    "regression",
    "pair_regression",
    "token_classification",
    "span_qa",
    "causal",
    "seq2seq",
    "text_to_text",
)
# Of models that write, there is no TFLite file so far.
ON_PHONES = EXPORTED[:8]


def phone_variants(run: RunConfig) -> tuple[str, ...]:
    """Which of `export.tflite` can be made of a run's model: all, or none."""
    return run.export.tflite if run.objective.kind in ON_PHONES else ()


def check_export(run: RunConfig) -> None:
    """Refuses a run whose model cannot be exported yet.

    Raises:
        ConfigError: With the key that stands in the way.
    """
    kind = run.objective.kind
    if kind not in EXPORTED:
        raise ConfigError(
            f"objective.kind={kind}: this version of Transbeam exports only models of "
            f"the kinds {', '.join(EXPORTED)}"
        )


def check_tokenizer(run: RunConfig) -> None:
    """Refuses a run whose tokenizer is brought along and not there.

    Raises:
        ConfigError: With the key that names it.
    """
    tokenizer = run.tokenizer
    if isinstance(tokenizer, PretrainedConfig) and not Path(tokenizer.path).exists():
        raise ConfigError(
            f"tokenizer.path={tokenizer.path}: there is no such file or folder, and "
            "without a tokenizer no records can be made. Put the tokenizer's files "
            "there that the model was trained with, or name another place"
        )
