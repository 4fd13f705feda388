"""A folder of weights that another program wrote, whatever the program."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from configs.errors import ArtifactError, ConfigError
from configs.model import Model, Seq2SeqConfig
from configs.objective import Objective
from model.weights.families import FAMILIES
from model.weights.family import Description
from model.weights.names import Link, Row, link, parts_by_name
from model.weights.settings import Settings
from model.weights.sources import SafetensorsSource, Source
from model.weights.transforms import Shape

Shapes = Mapping[str, Shape]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Weights on the disk, and what model they are of.

    Attributes:
        where: The folder, for messages.
        format: Whose: `hugging_face`, `tf1` or `keras_hub`.
        family: Of what family, such as `bert`.
        description: Of what model.
        rows: The table of names.
        source: The tensors.
        names: Names as the table has them, each with what the source calls it.
        copies: Tensors that repeat another.
    """

    where: str
    format: str
    family: str
    description: Description
    rows: tuple[Row, ...]
    source: Source
    names: Mapping[str, str]
    copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Model:
        """The `model` section of a run."""
        return self.description.config

    @property
    def vocabulary_size(self) -> int:
        """How many tokens the model knows; 0 for images."""
        return self.description.vocabulary_size

    @property
    def objective(self) -> Objective | None:
        """What the model's head was trained for; None for a body alone."""
        return self.description.objective

    def weights(self, shapes: Shapes) -> Iterator[tuple[str, np.ndarray]]:
        """Our weights, one after the other; all is checked before the first.

        Args:
            shapes: Path and shape of all weights wanted, as `shapes_of(model)` gives.

        Returns:
            Pairs of path and values, float32, each path once, in no certain order.

        Raises:
            ArtifactError: Tensors are missing, not of the model, or of another shape
                (the message names all of them), or what repeats another does not.
        """
        links = link(self.rows, shapes, self.description.sizes, self.where)
        self._check(links)
        return self._read(links)

    def left_out(self, shapes: Shapes) -> list[str]:
        """Tensors of heads and poolers that a model with these weights does not have.

        Example: the head of next sentences, for a model of masked tokens.
        """
        links = link(self.rows, shapes, self.description.sizes, self.where)
        taken = {found.theirs for found in links} | set(self.copies)
        return sorted(self.names[name] for name in self.names if name not in taken)

    def _read(self, links: list[Link]) -> Iterator[tuple[str, np.ndarray]]:
        for found in links:
            tensor = self.source.read(self.names[found.theirs])
            for path, array in found.to_ours(tensor):
                yield path, np.asarray(array, dtype="float32")

    def _check(self, links: list[Link]) -> None:
        there = self.source.shapes
        wrong = []
        for found in links:
            if found.theirs not in self.names:
                wrong.append(f"{found.theirs}: missing, expected {found.shape}")
                continue
            shape = there[self.names[found.theirs]]
            if shape != found.shape:
                wrong.append(f"{found.theirs}: {shape}, expected {found.shape}")
        wrong += [
            f"{self.names[name]}: {there[self.names[name]]}, expected no such tensor"
            for name in self._strangers(links)
        ]
        if wrong:
            listed = "\n".join(f"  {line}" for line in wrong)
            raise ArtifactError(
                f"{self.where}: {len(wrong)} tensors are not as the model asks for:\n"
                f"{listed}\nThe configuration and the weights must be of one model"
            )
        self._check_copies({found.theirs for found in links})

    def _strangers(self, links: list[Link]) -> list[str]:
        """Names that are nothing of this model, not even a head left out."""
        config = self.config
        deepest = config.num_layers
        if isinstance(config, Seq2SeqConfig):
            deepest = max(deepest, config.decoder_layers)
        parts = parts_by_name(self.rows, deepest)
        taken = {found.theirs for found in links} | set(self.copies)
        return [
            name
            for name in self.names
            if name not in taken and parts.get(name, "body") == "body"
        ]

    def _check_copies(self, taken: set[str]) -> None:
        for copy, original in self.copies.items():
            if copy in taken or not {copy, original} <= self.names.keys():
                continue
            these, those = (
                self.source.read(self.names[name]) for name in (copy, original)
            )
            if not np.array_equal(these, those):
                raise ArtifactError(
                    f"{self.where}: {self.names[copy]} is not {self.names[original]} "
                    "again, but the configuration has one table for both. If the model "
                    "has two, set tie_word_embeddings to false in config.json"
                )


def read_checkpoint(folder: str | Path) -> Checkpoint:
    """Finds out what a folder holds, and reads all but the tensors.

    | what                                                 | whose                   |
    |------------------------------------------------------|-------------------------|
    | `config.json`, `model.safetensors` or its shards     | Hugging Face            |
    | `bert_config.json`, `*.ckpt.index`, `*.ckpt.data-*`  | the first BERT (TF1)    |
    | `config.json`, `model.weights.h5`                    | KerasHub, a preset      |

    Raises:
        ArtifactError: It is none of them, is damaged, its weights are in a pickle, or
            the model has something that ours do not.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder}: is no folder; expected one with config.json and "
            "model.safetensors"
        )
    try:
        return _read(folder)
    except ConfigError as error:  # sizes that do not fit each other
        raise ArtifactError(f"{folder}: {error}") from error


def _read(folder: Path) -> Checkpoint:
    if (folder / "bert_config.json").is_file():
        from model.weights.tf1_bert import read_tf1_bert

        return read_tf1_bert(folder)
    settings = Settings.of_file(folder / "config.json")
    if "keras_hub" in str(settings.values.get("module", "")):
        from model.weights.keras_hub import read_preset

        return read_preset(folder)
    return _read_hugging_face(folder, settings)


def _read_hugging_face(folder: Path, settings: Settings) -> Checkpoint:
    family = FAMILIES[settings.choice("model_type", {name: name for name in FAMILIES})]
    source = SafetensorsSource(folder)
    names = family.short_names(source.shapes, str(folder))
    description = family.read(settings, names)
    return Checkpoint(
        where=str(folder),
        format="hugging_face",
        family=family.model_type,
        description=description,
        rows=family.rows(description),
        source=source,
        names=names,
        copies=family.copies,
    )
