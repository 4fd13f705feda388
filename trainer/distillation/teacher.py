"""Loads a finished run as a teacher, checks it, and copies blocks to the student."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.compatibility import check_model
from transbeam.configs.loader.model_files import IMPORTED, TOKENIZER, find_model_weights
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.model.weights.assign import variable_shapes, variables_by_path
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.warm_start import Origin, find_origin

_KEY = "training.distillation"
_BLOCK = re.compile(r"^(encoder|decoder)_layer_(\d+)/")


def load_teacher(
    config: RunConfig, distillation: DistillationConfig, vocabulary: Mapping[str, Any]
) -> keras.Model:
    """Builds the teacher of a student's run, for the records of the student.

    Args:
        config: The student's run.
        distillation: Its `training.distillation`.
        vocabulary: The vocabulary of the student's records, from their manifest.

    Returns:
        The trained model; it computes in the student's precision.

    Raises:
        ArtifactError: The teacher is not finished, its weights are damaged, or it has
            another tokenizer.
        ConfigError: The teacher was trained for another objective, or cannot read the
            records.
    """
    origin = find_origin(Path(distillation.teacher).expanduser())
    there = origin.config
    # Random features and random blocks come from the seed; they are not weights.
    as_teacher = replace(
        config,
        seed=there.seed,
        model=there.model,
        training=replace(config.training, rematerialize=False),
    )
    _check_objective(config, origin)
    _check_tokenizer(origin, vocabulary)
    try:
        check_model(as_teacher)
    except ConfigError as error:
        raise ConfigError(
            f"{_KEY}.teacher={origin.folder}: the teacher cannot read the records: "
            f"{error}"
        ) from None
    model = build_trainable(as_teacher, vocabulary["size"])
    path = find_model_weights(origin.folder)
    if missing := load_matching_weights(model, origin.values(), str(path)):
        raise ArtifactError(
            f"{path}: a teacher has to answer, and {', '.join(missing)} are missing. "
            "Train it for the objective first"
        )
    return model


def _check_objective(config: RunConfig, origin: Origin) -> None:
    where = f"{_KEY}.teacher={origin.folder}"
    here, there = config.objective, origin.config.objective
    if here.kind != there.kind:
        raise ConfigError(
            f"{where}: was trained for objective.kind={there.kind}, and this run is "
            f"for {here.kind}. Train a teacher for it"
        )
    labels, labels_there = (getattr(of, "labels", ()) for of in (here, there))
    if labels != labels_there:
        raise ConfigError(
            f"{where}: its objective.labels are {list(labels_there)}, and here they "
            f"are {list(labels)}. Write the same, in the same order"
        )


def _check_tokenizer(origin: Origin, vocabulary: Mapping[str, Any]) -> None:
    found = vocabulary["fingerprint"]
    if origin.tokenizer in (None, found):
        return
    place = IMPORTED if origin.vocabulary_size is None else "data"
    raise ArtifactError(
        f"{origin.folder}: the teacher reads with another tokenizer: fingerprint "
        f"{origin.tokenizer[:12]}… there, {found[:12]}… here. Make the records with "
        "its own: `tokenizer: {kind: pretrained, path: "
        f"{origin.folder / place / TOKENIZER}}}`"
    )


def begin_as(
    student: keras.Model, teacher: keras.Model, config: DistillationConfig
) -> list[str]:
    """Initializes a student with blocks and other weights of its teacher.

    Args:
        student: A built model with at most as many blocks as the teacher.
        teacher: A trained model of the same widths.
        config: `layers` and `decoder_layers` select the teacher's blocks.

    Returns:
        A description of the copied blocks, for each stack.

    Raises:
        ConfigError: A block does not exist, too many or too few blocks are named, or a
            weight has another shape.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> teacher = build_encoder(EncoderConfig(num_layers=4, hidden_dim=8), 10, seed=1)
    >>> student = build_encoder(EncoderConfig(num_layers=2, hidden_dim=8), 10)
    >>> begin_as(student, teacher, DistillationConfig(teacher="runs/bert"))
    ['encoder blocks 0, 2']

    References:
        - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 2
    """
    wanted = {"encoder": config.layers, "decoder": config.layers}
    if _count_blocks(teacher, "encoder"):
        wanted["decoder"] = config.decoder_layers
    chosen = {
        stack: _choose(stack, _count_blocks(student, stack), there, wanted[stack])
        for stack in wanted
        if (there := _count_blocks(teacher, stack))
    }

    def origin(path: str) -> str:
        """The teacher's weight path for the path of a student's weight."""
        if not (found := _BLOCK.match(path)):
            return path
        stack, number = found[1], chosen[found[1]][int(found[2])]
        return f"{stack}_layer_{number}/{path[found.end() :]}"

    there, here = variables_by_path(teacher), variables_by_path(student)
    shapes = variable_shapes(teacher)
    wrong = [
        f"{path}: {shapes.get(origin(path), 'nothing')} there, {shape} here"
        for path, shape in variable_shapes(student).items()
        if shapes.get(origin(path)) != shape
    ]
    if wrong:
        more = f"\n  and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        listed = "".join(f"\n  {line}" for line in wrong[:5])
        raise ConfigError(
            f"{_KEY}.layers: the student cannot begin as a part of its teacher:{listed}"
            f"{more}\nGive `model` the teacher's widths, or write `layers: []`"
        )
    for path, weight in here.items():
        # A copy: JAX would share the array, and an update donates its buffer.
        weight.assign(keras.ops.copy(there[origin(path)].value))
    return [
        f"{stack} blocks {', '.join(map(str, numbers))}"
        for stack, numbers in chosen.items()
    ]


def _count_blocks(model: keras.Model, stack: str) -> int:
    return sum(layer.name.startswith(f"{stack}_layer_") for layer in model.layers)


def _choose(
    stack: str, here: int, there: int, wanted: Sequence[int] | None
) -> Sequence[int]:
    """Selects, for each block of the student, the block of the teacher to copy."""
    if wanted is None:
        if here > there:
            raise ConfigError(
                f"{_KEY}: the student's {stack} has {here} blocks and its teacher's "
                f"only {there}. Make the student smaller, or name blocks in `layers`"
            )
        return [number * there // here for number in range(here)]
    if len(wanted) != here:
        raise ConfigError(
            f"{_KEY}: {list(wanted)} names {len(wanted)} blocks for the {stack}'s "
            f"{here}"
        )
    if outside := [number for number in wanted if not 0 <= number < there]:
        raise ConfigError(
            f"{_KEY}: there is no block {outside[0]}; the teacher's {stack} has "
            f"{there}, from 0 to {there - 1}"
        )
    return wanted
