"""The keys by which a configuration takes values from elsewhere.

They are resolved before anything is bound: a run's configuration holds the values that
they stand for, and not the keys themselves.
"""

from dataclasses import dataclass

from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class FileInheritanceConfig:
    """The file that another one is written over."""

    extends: str | None = option(
        "Another YAML file, relative to this one, whose keys hold here too, but for "
        "`name`. Sections are merged key by key; what else stands here, lists among "
        "it, replaces what is there.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class ModelInheritanceConfig:
    """The origin of a model that is not described key by key."""

    preset: str | None = option(
        "A published model, such as bert_base: the `model` of that file in "
        "configs/presets. Keys beside it override.",
        default=None,
    )
    init_from: str | None = option(
        "Folder of a run to begin with: the model that it trained or imported, its "
        "tokenizer and its weights. A head that it has not is new. dropout, "
        "initializer and pooler may be others beside it.",
        default=None,
    )
