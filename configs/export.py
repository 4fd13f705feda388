"""`export`: what is made of the trained model, and how exact it must be."""

from dataclasses import dataclass
from typing import Literal

from configs.fields import option


@dataclass(frozen=True, kw_only=True)
class ToleranceConfig:
    """Largest difference allowed from the Keras model; beyond it the export fails."""

    saved_model: float = option(
        "Largest difference of a log-probability or vector entry.",
        default=1e-4,
        minimum=0.0,
    )
    float32: float = option("The same for float32 TFLite.", default=1e-3, minimum=0.0)
    dynamic_int8: float = option(
        "The same for int8 TFLite, as a root mean square.", default=0.25, minimum=0.0
    )
    dynamic_int8_agreement: float = option(
        "Smallest share of [MASK]s with the same first guess, int8 and Keras; "
        "a tie within `dynamic_int8` counts.",
        default=0.9,
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """SavedModel for TF Serving, TFLite for phones."""

    version: int = option("Version folder TF Serving reads.", default=1, minimum=1)
    top_k: int = option("Guesses returned for each [MASK].", default=5, minimum=1)
    tflite: tuple[Literal["float32", "dynamic_int8"], ...] = option(
        "TFLite files to make.", default=("float32", "dynamic_int8")
    )
    tflite_masks: int = option(
        "[MASK]s a single call of the TFLite model can ask for.", default=8, minimum=1
    )
    tolerance: ToleranceConfig = option("How exact.", default=ToleranceConfig)
    examples: tuple[str, ...] = option(
        "Texts with a [MASK] to try the export on; shown at the end of a run.",
        default=(),
    )
