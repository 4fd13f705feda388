"""Warm start: initializes a training with the weights of another run or of a file.

    training.init_from        a run's folder: the model it trained, or imported
    training.initial_weights  a file of weights by their paths

A run's folder records the configuration and tokenizer of its weights. So a tokenizer
with other ids, or a block that computes something else, is reported before the first
step.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.reflection import plain
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.block import LearnedPositionConfig
from transbeam.configs.schema.model import Model
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.weight_paths import gives_scores
from transbeam.model.weights.assign import variables_of
from transbeam.model.weights.safetensors_store import (
    begin_with,
    read_weights,
    take_over,
)
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.tokenizers.files.tokenizer_folder import tokenizer_fingerprint
from transbeam.trainer.base.training_stage import (
    IMPORTED,
    TOKENIZER,
    build_trainable,
    training_stage,
    was_trained,
    weights_of,
)
from transbeam.trainer.base.weight_files import load_weights, numbers_of

# Keys of `model` that may differ: they change no weight of the body, except that the
# length changes the shape of learned position embeddings.
_FREE = ("dropout", "initializer", "max_sequence_length", "pooler")


@dataclass(frozen=True)
class Origin:
    """A run whose weights initialize another training.

    Attributes:
        folder: The run's folder.
        config: The configuration with which it was trained or imported.
        vocabulary_size: Vocabulary size of its tokenizer; None if it was imported.
        tokenizer: Fingerprint of its tokenizer; None if it has none.
    """

    folder: Path
    config: RunConfig
    vocabulary_size: int | None
    tokenizer: str | None

    def values(self) -> dict[str, np.ndarray]:
        """Reads its weights, by their paths.

        Raises:
            ArtifactError: The file is missing or damaged.
        """
        if self.vocabulary_size is None:
            return read_weights(weights_of(self.folder))
        model = build_trainable(self.config, self.vocabulary_size)
        load_weights(model, weights_of(self.folder))
        return {
            path: numbers_of(weight) for path, weight in variables_of(model).items()
        }


def origin_of(folder: Path) -> Origin:
    """Finds the weights of a run; trained ones take precedence over imported ones.

    Raises:
        ArtifactError: The run has neither.
    """
    if was_trained(folder):
        vocabulary = read_manifest(folder / "data").vocabulary
        config = load_run(training_stage(folder).path / "run.yaml", with_model=True)
        return Origin(folder, config, vocabulary["size"], vocabulary["fingerprint"])
    imported = folder / IMPORTED
    if not (imported / "stage.json").is_file():
        raise ArtifactError(
            f"{folder}: has no trained model: neither `transbeam train` nor `transbeam "
            "import` has finished there. Name another folder, or train there first"
        )
    Stage(folder, IMPORTED, f"transbeam import DIR --run {folder}").load()
    tokenizer = imported / TOKENIZER
    return Origin(
        folder,
        load_run(folder / "run.yaml", with_model=True),
        None,
        tokenizer_fingerprint(tokenizer) if tokenizer.is_dir() else None,
    )


def check_origin(config: RunConfig, run_folder: Path, manifest: Manifest) -> None:
    """Checks that the run of `init_from` fits a new training, before files are moved.

    Args:
        config: The new training's configuration.
        run_folder: Its run folder.
        manifest: The manifest of its records.

    Raises:
        ArtifactError: There is no such model, it has another architecture or tokenizer,
            or it is in this run's own folder, where this training would move it aside.
    """
    training = config.training
    teacher = training.distillation and training.distillation.teacher
    for key, named in (
        ("init_from", training.init_from),
        ("distillation.teacher", teacher),
    ):
        folder = None if named is None else Path(named).expanduser().resolve()
        if folder == run_folder.resolve():
            raise ArtifactError(
                f"training.{key}={named} is the folder of this run itself. Train in "
                "another one: --run DIR"
            )
    if training.init_from is not None:
        _check(origin_of(Path(training.init_from).expanduser()), config, manifest)


def begin(
    model: keras.Model, config: RunConfig, manifest: Manifest
) -> tuple[str, list[str]] | None:
    """Loads the initial weights that a training's configuration names into its model.

    Args:
        model: The model of `config`.
        config: The new training's configuration.
        manifest: The manifest of its records.

    Returns:
        The source of the weights, and the paths of newly initialized ones, which
        belong to a head that the source lacks; None for a training from random weights.

    Raises:
        ArtifactError: There are no weights, or they are of another model or tokenizer;
            the message names what differs.
    """
    training = config.training
    if training.init_from is not None:
        origin = origin_of(Path(training.init_from).expanduser())
        _check(origin, config, manifest)
        told = str(weights_of(origin.folder))
        values = origin.values()
        if _answers(origin.config) != _answers(config):
            values = {path: x for path, x in values.items() if not gives_scores(path)}
        new = take_over(model, values, told)
        if origin.tokenizer is None:
            told += (
                ", which came without a tokenizer: nothing tells if ids mean the same"
            )
        return told, new
    if training.initial_weights is not None:
        path = Path(training.initial_weights).expanduser()
        return str(path), begin_with(model, path)
    return None


def _answers(config: RunConfig) -> tuple[str, tuple[str, ...]] | None:
    """Objective kind and labels of a head with classes; None without classes."""
    labels = getattr(config.objective, "labels", ())
    return (config.objective.kind, labels) if labels else None


def _check(origin: Origin, config: RunConfig, manifest: Manifest) -> None:
    wrong = differences(origin.config, config)
    told = f"training.init_from={config.training.init_from}"
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ArtifactError(
            f"{told}: was made with another model than this run's:\n{listed}\n"
            "Write in `model` what is there"
        )
    found = manifest.vocabulary["fingerprint"]
    if origin.tokenizer is not None and found != origin.tokenizer:
        place = "data" if origin.vocabulary_size is not None else IMPORTED
        raise ArtifactError(
            f"{told}: reads with another tokenizer: fingerprint "
            f"{origin.tokenizer[:12]}… there, {found[:12]}… in "
            f"{manifest.folder}. Make the records with its own: `tokenizer: {{kind: "
            f"pretrained, path: {origin.folder / place / TOKENIZER}}}`"
        )


def differences(there: RunConfig, here: RunConfig) -> list[str]:
    """Lists `model` keys that must be equal for weights to be reusable, and are not.

    Example:
    >>> from dataclasses import replace
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> four = RunConfig(name="bert", data=data, model=EncoderConfig(dropout=0.1))
    >>> six = replace(four, model=EncoderConfig(num_layers=6, dropout=0.0))
    >>> differences(four, six)
    ['model.num_layers: 4 there, 6 here']
    """
    old, new = (_leaves(plain(run.model), "model") for run in (there, here))
    if _has_a_weight_per_place(here.model):
        key = "model.max_sequence_length"
        old[key], new[key] = (run.model.max_sequence_length for run in (there, here))
    if _draws_by_seed(here.model):
        # Random features and random blocks come from the seed and are not weights.
        old["seed"], new["seed"] = there.seed, here.seed
    return [
        f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} here"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _has_a_weight_per_place(model: Model) -> bool:
    return isinstance(model.position, LearnedPositionConfig) or isinstance(
        model.attention, LowRankAttentionConfig
    )


def _draws_by_seed(model: Model) -> bool:
    match model.attention:
        case KernelAttentionConfig(feature_map=features):
            return features != "elu"
        case BlockSparseAttentionConfig(num_random_blocks=number):
            return number > 0
    return False


def _leaves(value: Any, path: str) -> dict[str, Any]:
    """Flattens to dotted keys and their values, without the keys that may differ."""
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if name not in _FREE:
            found |= _leaves(inner, f"{path}.{name}")
    return found
