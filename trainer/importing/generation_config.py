"""Generation settings of a checkpoint: the ids that end a text, and the method."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GreedyConfig,
    SampleConfig,
)
from transbeam.model.weights.checkpoints.hf_config import HFConfig

FILE = "generation_config.json"

# Defaults of transformers; a key with another value is reported.
_DEFAULTS: dict[str, Any] = {
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "remove_invalid_values": False,
    "renormalize_logits": False,
    "repetition_penalty": 1.0,
    "typical_p": 1.0,
}
# Keys that are read, or that do not affect generated tokens.
_KNOWN = {
    "_from_model_config",
    "bos_token_id",
    "cache_implementation",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "length_penalty",
    "max_new_tokens",
    "min_p",
    "num_beams",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "penalty_alpha",
    "return_dict_in_generate",
    "temperature",
    "top_k",
    "top_p",
    "transformers_version",
    "use_cache",
}
# Further generation keys that `config.json` may have, and that are not supported.
_OLDER = {
    "bad_words_ids",
    "begin_suppress_tokens",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
}
_START = "decoder_start_token_id"
# The default `top_k` of transformers.
_TOP_K = 50


@dataclass(frozen=True)
class Generation:
    """Generation settings of a checkpoint.

    Attributes:
        evaluation: The run's `evaluation` section, whose generation settings are the
            defaults of requests to the exported model.
        ends: Ids that end a text.
        left_out: Keys with their values that transformers uses and we do not support.
        where: Path of the file from which the settings were read, for messages.
        start: The decoder's start id; None if it is not set.
    """

    evaluation: EvaluationConfig
    ends: tuple[int, ...]
    left_out: dict[str, Any]
    where: str
    start: int | None = None


def read_generation(folder: Path, token_ids: Mapping[str, Any]) -> Generation:
    """Reads `generation_config.json` or, without it, the settings of `config.json`.

    Args:
        folder: The checkpoint's folder.
        token_ids: Special ids of the checkpoint's `config.json`; those of
            `generation_config.json` take precedence.

    Raises:
        ArtifactError: The file is damaged, or a value is out of range.
    """
    path = folder / FILE
    older = _of_older(folder)
    settings = HFConfig.of_file(path) if path.is_file() else older
    method, left_out = _method(settings)
    most = settings.integer("max_new_tokens") if "max_new_tokens" in settings else None
    left_out |= {
        key: value
        for key, value in settings.values.items()
        if key not in _KNOWN and value != _DEFAULTS.get(key)
    }
    ends = settings.values.get("eos_token_id", token_ids.get("eos_token_id", ()))
    ends = tuple(ends) if isinstance(ends, list | tuple) else (ends,)
    if any(type(i) is not int for i in ends):
        raise settings.refusal(
            "eos_token_id", "the id of a token, or several in a list"
        )
    return Generation(
        EvaluationConfig(method=method, max_new_tokens=most),
        tuple(i for i in ends if i >= 0),  # -1 means none in some checkpoints
        left_out,
        settings.where,
        settings.values.get(_START, older.values.get(_START)),
    )


def _of_older(folder: Path) -> HFConfig:
    """Reads generation settings from `config.json`, as older checkpoints have them."""
    path = folder / "config.json"
    settings = HFConfig.of_file(path).values if path.is_file() else {}
    # The other keys of `config.json` describe the model.
    known = _KNOWN | _DEFAULTS.keys() | _OLDER
    return HFConfig({k: v for k, v in settings.items() if k in known}, str(path))


def _method(settings: HFConfig) -> tuple[Any, dict[str, Any]]:
    """The decoding method of transformers, and its settings that we do not support."""
    beams, draws = settings.integer("num_beams", 1), settings.flag("do_sample", False)
    early = settings.values.get("early_stopping", False)
    left_out: dict[str, Any] = {}
    try:
        if draws:
            if beams > 1:
                left_out["num_beams"] = beams
            method = SampleConfig(
                temperature=settings.number("temperature", 1.0),
                top_k=settings.integer("top_k", _TOP_K, minimum=0),
                top_p=settings.number("top_p", 1.0),
                min_p=settings.number("min_p", 0.0),
            )
            return method, left_out
        if beams > 1:
            if not isinstance(early, bool):
                left_out["early_stopping"] = early
            method = BeamConfig(
                num_beams=beams,
                length_penalty=settings.number("length_penalty", 1.0),
                early_stopping=early is True,
            )
            return method, left_out
        alpha = settings.number("penalty_alpha", 0.0)
        if alpha > 0 and (top_k := settings.integer("top_k", _TOP_K)) > 1:
            return ContrastiveConfig(top_k=top_k, penalty=alpha), left_out
    except ConfigError as error:
        raise ArtifactError(f"{settings.where}: {error}") from error
    return GreedyConfig(), left_out
