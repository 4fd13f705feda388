"""Detects the format of a weights folder and reads it."""

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.base.fields import check_options
from transbeam.model.weights.checkpoints.checkpoint import Checkpoint
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.model_family import (
    TOKEN_IDS,
    inner_prefix,
    wrappers,
)
from transbeam.model.weights.checkpoints.tensor_sources import (
    UNQUANTISED,
    SafetensorsSource,
    refuse_pickles,
)
from transbeam.model.weights.hugging_face.families import FAMILIES
from transbeam.model.weights.keras_hub.backbones import read_preset
from transbeam.model.weights.tf1_bert import read_tf1_bert

_KNOWN = (
    "config.json with model.safetensors (transformers), bert_config.json with "
    "*.ckpt.index (the first BERT), or config.json with model.weights.h5 (KerasHub)"
)


def read_checkpoint(folder: str | Path, *, body_alone: bool = False) -> Checkpoint:
    """Detects the format of a checkpoint, and reads everything except the tensors.

    | files                                                | format                  |
    |------------------------------------------------------|-------------------------|
    | `config.json`, `model.safetensors` or its shards     | Hugging Face            |
    | `bert_config.json`, `*.ckpt.index`, `*.ckpt.data-*`  | the first BERT (TF1)    |
    | `config.json`, `model.weights.h5`                    | KerasHub, a preset      |

    Args:
        folder: The folder.
        body_alone: If true, a Hugging Face checkpoint is read without its head.

    Raises:
        ArtifactError: The format is unknown, the checkpoint is damaged, its weights are
            pickled, or the model has a feature that we do not support.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder}: is a file. Give the folder it is in"
            if folder.exists()
            else f"{folder}: there is no such folder. Nothing is downloaded: fetch the "
            f"checkpoint first, and give the folder that holds {_KNOWN}"
        )
    try:
        checkpoint = _read(folder, body_alone)
        _check_ranges(checkpoint.config)
    except ConfigError as error:  # sizes that do not fit each other
        raise ArtifactError(f"{folder}: {error}") from error
    checkpoint.check_size(checkpoint.config)
    return checkpoint


def _check_ranges(section: Any) -> None:
    """Checks that a checkpoint's numbers are in the ranges of a run's configuration."""
    check_options(section)
    for key in fields(section):
        if is_dataclass(value := getattr(section, key.name)):
            _check_ranges(value)


def _read(folder: Path, body_alone: bool) -> Checkpoint:
    _refuse_adapter(folder)
    if (folder / "bert_config.json").is_file():
        return read_tf1_bert(folder)
    if not (folder / "config.json").exists():
        refuse_pickles(folder)
        raise ArtifactError(f"{folder}: contains no checkpoint; expected {_KNOWN}")
    settings = HFConfig.of_file(folder / "config.json")
    if "keras_hub" in str(settings.values.get("module", "")):
        return read_preset(folder)
    if body_alone:  # without a class, no head is read
        values = {k: v for k, v in settings.values.items() if k != "architectures"}
        settings = HFConfig(values, settings.where)
    return _read_hugging_face(folder, settings)


def _refuse_adapter(folder: Path) -> None:
    """Raises an error for a folder of adapter weights (LoRA) without a base model."""
    file = folder / "adapter_config.json"
    if not file.is_file():
        return
    settings = HFConfig.of_file(file)
    kind = settings.values.get("peft_type")
    kind = f"{kind} weights" if isinstance(kind, str) else "weights of an adapter"
    base = settings.values.get("base_model_name_or_path")
    base = base if isinstance(base, str) else "another model"
    raise ArtifactError(
        f"{file}: the folder holds {kind} for {base}, not a whole model. Merge "
        "them into it, in PEFT by `model.merge_and_unload().save_pretrained(folder)`, "
        "and bring that folder"
    )


# Names that PEFT gives to the tensors of a layer with adapters.
_UNMERGED = re.compile(r"\.(lora_[AB]|lora_magnitude_vector|base_layer)\.")


def _refuse_unmerged(folder: Path, names: Iterable[str]) -> None:
    """Raises an error for a model with unmerged adapters."""
    if found := sorted(name for name in names if _UNMERGED.search(name)):
        raise ArtifactError(
            f"{folder}: {found[0]}: the model was saved with adapters (LoRA) around "
            "its layers. Merge them into it, in PEFT by "
            "`model.merge_and_unload().save_pretrained(folder)`, and bring that folder"
        )


def _refuse_quantised(settings: HFConfig) -> None:
    """Raises an error for quantized weights, as declared in the configuration."""
    for key in ("quantization_config", "quantization", "compression_config"):
        if key in settings:
            method_settings = settings.values[key]
            method = (
                method_settings.get("quant_method", key)
                if isinstance(method_settings, dict)
                else key
            )
            raise ArtifactError(
                f"{settings.where}: {key}: the weights are quantised ({method}), which "
                f"cannot be read. {UNQUANTISED}"
            )


def _read_hugging_face(folder: Path, settings: HFConfig) -> Checkpoint:
    _refuse_quantised(settings)
    family = FAMILIES[settings.choice("model_type", {name: name for name in FAMILIES})]
    source = SafetensorsSource(folder)
    source.check_formats()
    _refuse_unmerged(folder, source.shapes)
    names = family.short_names(source.shapes, str(folder))
    description = family.read(settings, names)
    inner = inner_prefix(names, family.rows(description))
    if inner:
        names = family.short_names(source.shapes, str(folder), inner)
        description = family.read(settings, names)
    token_ids = {key: _read_ids(settings, key) for key in TOKEN_IDS if key in settings}
    description = replace(description, token_ids=token_ids)
    return Checkpoint(
        where=str(folder),
        format="hugging_face",
        family=family.model_type,
        description=description,
        rows=family.rows(description),
        source=source,
        names=names,
        copies=family.copies,
        wrappers=[*wrappers(source.shapes, family.prefix), *([inner] if inner else [])],
    )


def _read_ids(settings: HFConfig, key: str) -> int | tuple[int, ...]:
    """Reads one token id or several; in some checkpoints -1 means no token."""
    given = settings.values[key]
    ids = given if isinstance(given, list) else [given]
    if not all(type(one) is int and one >= -1 for one in ids):
        raise settings.refusal(key, "the id of a token, or several in a list")
    return tuple(ids) if isinstance(given, list) else given
