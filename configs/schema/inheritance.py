"""Keys that inherit values from another file, preset or run.

The keys `extends`, `preset` and `init_from` are resolved before the configuration is
parsed into dataclasses: a run's configuration contains the inherited values, not the
keys themselves.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileInheritanceConfig:
    """Inheritance from another configuration file."""

    extends: str | None = None
    """Base configuration: another YAML file, relative to this one, whose keys are
    inherited, except `name`. Sections are merged key by key; all other values in this
    file, lists included, replace those of the base.
    """


@dataclass(frozen=True, kw_only=True)
class ModelInheritanceConfig:
    """Inheritance of the model from a preset or a run."""

    preset: str | None = None
    """Published model whose `model` section is used, such as bert_base, a file of
    configs/presets. Keys of this section override it.
    """

    init_from: str | None = None
    """Folder of a run whose model configuration, tokenizer and weights initialize this
    one. A head that the run lacks is newly initialized. Keys beside it can override
    dropout, initializer and pooler.
    """
