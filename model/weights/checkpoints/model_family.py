"""The interface of a model family in Hugging Face's format."""

import itertools
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    NoFeedForwardConfig,
)
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.model.weights.checkpoints.tensor_transforms import Sizes
from transbeam.model.weights.checkpoints.weight_mapping import MappingRow

TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a model, from its checkpoint.

    Attributes:
        config: The `model` section of a run.
        vocabulary_size: Number of tokens; 0 for images.
        objective: The objective of its head; None for a backbone without a head.
        token_ids: Special ids for text generation, by their keys in `config.json`: some
            of `TOKEN_IDS`. Several ids may be end-of-text tokens.
    """

    config: Model
    vocabulary_size: int
    objective: Objective | None = None
    token_ids: Mapping[str, int | Sequence[int]] = field(
        default_factory=dict,
        compare=False,  # they do not affect the model
    )

    @property
    def sizes(self) -> Sizes:
        """Returns the sizes that transforms of tensors need."""
        config = self.config
        patches = config.patches if isinstance(config, EncoderConfig) else None
        return Sizes(
            vocabulary_size=self.vocabulary_size,
            head_dim=config.head_dim(config.attention),
            num_channels=patches.num_channels if patches else 3,
        )


def require_feedforward(
    config: Model,
) -> DenseFeedForwardConfig | GatedFeedForwardConfig:
    """Returns a model's feed-forward, which every published model family has.

    Raises:
        ArtifactError: The model consists of attention-only blocks.
    """
    if isinstance(config.feedforward, NoFeedForwardConfig):
        raise ArtifactError(
            "feedforward.kind is 'none', and blocks of this format have a feed-forward"
        )
    return config.feedforward


# Parts that PyTorch's wrappers add to a module's names: torch.compile, FSDP, and
# activation checkpointing. `module.`, of DataParallel, is a prefix of all names.
_WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)


def wrappers(names: Collection[str], prefix: str) -> list[str]:
    """Finds the components of tensor names that wrapper modules added.

    Args:
        names: Names of the tensors.
        prefix: The family's own prefix of the backbone's names.

    Example:
    >>> wrappers(["module.bert.a._orig_mod.weight", "module.head.weight"], "bert.")
    ['_orig_mod.', 'module.']
    """
    found = {wrapper for name in names for wrapper in _WRAPPERS.findall(name)}
    outer = _outer_prefix([_WRAPPERS.sub("", name) for name in names], prefix)
    return sorted(found | {outer} - {""})


def _outer_prefix(names: Iterable[str], prefix: str) -> str:
    """The prefix shared by all names, up to a dot, without the family's own prefix."""
    folders = zip(*(name.split(".")[:-1] for name in names), strict=False)
    common = itertools.takewhile(lambda parts: len(set(parts)) == 1, folders)
    return "".join(f"{parts[0]}." for parts in common).removesuffix(prefix)


def inner_prefix(names: Iterable[str], rows: Iterable[MappingRow]) -> str:
    """The prefix that must be removed from some names so that they match the table.

    Args:
        names: Tensor names, without the prefix that all of them share.
        rows: The table.

    Example:
    >>> head = MappingRow("b", "head.weight", part="head")
    >>> rows = [MappingRow("a", "encoder.{i}.weight"), head]
    >>> inner_prefix(["model.encoder.0.weight", "head.weight"], rows)
    'model.'
    >>> inner_prefix(["encoder.0.weight", "other.head.weight"], rows)
    ''
    """
    parts = [(_pattern(row), row.part) for row in rows]
    found: set[str] = set()
    has_body = False
    for name in names:
        if any(pattern.fullmatch(name) for pattern, _ in parts):
            continue
        ends = [name[at.end() :] for at in re.finditer(r"\.", name)]
        known = [(end, part) for end in ends for p, part in parts if p.fullmatch(end)]
        if not known:
            return ""
        found.add(name.removesuffix(known[0][0]))
        has_body |= known[0][1] == "body"
    return found.pop() if len(found) == 1 and has_body else ""


def _pattern(row: MappingRow) -> re.Pattern[str]:
    return re.compile(re.escape(row.theirs).replace(r"\{i\}", r"\d+"))


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family: its weight mapping table and the conversion of `config.json`.

    Attributes:
        model_type: The family's name in `config.json`.
        prefix: Prefix of the backbone's names in a model with a head; None for
            `model_type` and a dot.
        rows: Returns the rows of the weight mapping table for a model's description.
        read: Returns a description from `config.json` and the tensor names.
        write: Returns `config.json` from a description.
        copies: Maps names of duplicate tensors, which only some checkpoints contain, to
            the names of the tensors that they equal.
        ignored: Pattern of the names of buffers, which are not weights.
    """

    model_type: str
    prefix: str = ""
    rows: Callable[[Description], tuple[MappingRow, ...]]
    read: Callable[[HFConfig, Container[str]], Description]
    write: Callable[[Description], dict[str, Any]]
    copies: Mapping[str, str] = field(default_factory=dict)
    ignored: str = r"(?!)"

    def short_names(
        self, names: Iterable[str], where: str, inner: str = ""
    ) -> dict[str, str]:
        """Maps the tensor names of the mapping table to the checkpoint's tensor names.

        Args:
            names: Names of the checkpoint's tensors.
            where: Path of the checkpoint's folder, for error messages.
            inner: A prefix that only some names have, from `inner_prefix`.

        Raises:
            ArtifactError: Two tensors have the same name except for the prefix.
        """
        found: dict[str, str] = {}
        unwrapped = {name: _WRAPPERS.sub("", name) for name in names}
        outer = _outer_prefix(unwrapped.values(), self.prefix)
        for name, short in unwrapped.items():
            short = short.removeprefix(outer).removeprefix(self.prefix)
            short = short.removeprefix(inner)
            short = _without_old_endings(short)
            if short in found:
                raise ArtifactError(
                    f"{where}: has both {found[short]} and {name}, which are one weight"
                )
            if not re.search(self.ignored, short):
                found[short] = name
        return found


def _without_old_endings(name: str) -> str:
    """Renames the norms of early BERT checkpoints, which have TensorFlow's names."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
