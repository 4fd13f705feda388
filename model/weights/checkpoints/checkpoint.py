"""A checkpoint of another library, in any format."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.model import EncoderConfig, Model, Seq2SeqModelConfig
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.model.cost.parameters import count_parameters
from transbeam.model.weights.checkpoints.model_family import Description
from transbeam.model.weights.checkpoints.tensor_sources import Source
from transbeam.model.weights.checkpoints.tensor_transforms import Shape
from transbeam.model.weights.checkpoints.weight_mapping import (
    MappingRow,
    WeightMapping,
    link,
    parts_by_name,
)

Shapes = Mapping[str, Shape]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Weights on disk, with a description of the model to which they belong.

    Attributes:
        where: Path of the checkpoint's folder, for error messages.
        format: `hugging_face`, `tf1` or `keras_hub`.
        family: The model family, such as `bert`.
        description: The model.
        rows: The rows of the table that maps our weights to the checkpoint's tensors.
        source: The tensors.
        names: Maps a tensor's name in the table to its name in the checkpoint.
        copies: Maps the name of a duplicate tensor to the name of the tensor that it
            must equal.
        wrappers: Components of the checkpoint's tensor names that wrapper modules
            added, such as `module.`.
    """

    where: str
    format: str
    family: str
    description: Description
    rows: tuple[MappingRow, ...]
    source: Source
    names: Mapping[str, str]
    copies: Mapping[str, str] = field(default_factory=dict)
    wrappers: Sequence[str] = ()

    @property
    def config(self) -> Model:
        """The `model` section of a run."""
        return self.description.config

    @property
    def vocabulary_size(self) -> int:
        """Returns the size of the model's vocabulary; 0 for images."""
        return self.description.vocabulary_size

    @property
    def objective(self) -> Objective | None:
        """Returns the objective of the head; None for a backbone without a head."""
        return self.description.objective

    def weights(self, shapes: Shapes) -> Iterator[tuple[str, np.ndarray]]:
        """Reads and converts weights one at a time, after checking all of them.

        Args:
            shapes: Paths and shapes of the required weights, from
                `variable_shapes(model)`.

        Returns:
            Pairs of path and values, float32, each path once, in any order.

        Raises:
            ArtifactError: Tensors are missing, do not belong to the model, or have
                another shape (the message names all of them), or a duplicate differs
                from its original.
        """
        links = link(self.rows, shapes, self.description.sizes, self.where)
        self._check(links)
        return self._read(links)

    def check_size(self, config: Model) -> None:
        """Checks, before a model is built, that it is not far larger than the tensors.

        A wrong value in a config could require more memory than is available.

        Args:
            config: The checkpoint's own config, or one derived from it.

        Raises:
            ArtifactError: The model has more than twice as many parameters as the
                tensors have elements.
        """
        described = sum(count_parameters(config, self.vocabulary_size).values())
        there = sum(math.prod(shape) for shape in self.source.shapes.values())
        if described > 2 * there:
            raise ArtifactError(
                f"{self.where}: the configuration describes a model of {described:,} "
                f"weights ({config.num_layers:,} blocks, {config.hidden_dim:,} wide, "
                f"{self.vocabulary_size:,} tokens), and the tensors are {there:,} "
                "numbers. The configuration and the weights must be of one model"
            )

    def left_out(self, shapes: Shapes) -> list[str]:
        """Lists tensors of heads and poolers that a model with the given weights lacks.

        For example, a masked language model lacks the tensors of the next-sentence
        head.
        """
        links = link(self.rows, shapes, self.description.sizes, self.where)
        taken = {found.theirs for found in links} | set(self.copies)
        return sorted(self.names[name] for name in self.names if name not in taken)

    def _read(self, links: list[WeightMapping]) -> Iterator[tuple[str, np.ndarray]]:
        for found in links:
            tensor = self.source.read(self.names[found.theirs])
            for path, array in found.to_ours(tensor):
                with np.errstate(over="ignore"):  # `assign` checks for finite numbers
                    yield path, np.asarray(array, dtype="float32")

    def _check(self, links: list[WeightMapping]) -> None:
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
            for name in self._unknown_tensors(links)
        ]
        if wrong:
            listed = "\n".join(f"  {line}" for line in wrong)
            are = "1 tensor is" if len(wrong) == 1 else f"{len(wrong)} tensors are"
            raise ArtifactError(
                f"{self.where}: {are} not as the model needs:\n"
                f"{listed}\n{self._remedy(links, len(wrong))}"
            )
        self._check_copies({found.theirs for found in links})

    def _remedy(self, links: list[WeightMapping], num_wrong: int) -> str:
        """The hint that follows a list of wrong tensors in an error message."""
        no_body = [f for f in links if f.row.part != "body"]
        lost = [found for found in no_body if found.theirs not in self.names]
        if len(lost) == num_wrong and isinstance(self.config, EncoderConfig):
            return (
                "They are of the head that `architectures` in config.json names. Take "
                "that key out to read the model without a head"
            )
        return "The configuration and the weights must be of one model"

    def _unknown_tensors(self, links: list[WeightMapping]) -> list[str]:
        """Lists names that belong neither to this model nor to an unused head."""
        config = self.config
        deepest = config.num_layers
        if isinstance(config, Seq2SeqModelConfig):
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
