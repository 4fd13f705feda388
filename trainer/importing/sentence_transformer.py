"""Reads the embedding settings of a sentence-transformers folder.

modules.json                  the modules in order, each with its folder
sentence_bert_config.json     the maximum sequence length; the name varies
tokenizer_config.json         the maximum length, if the former does not have it
1_Pooling/config.json         pooling of token embeddings
config_sentence_transformers.json   prompts, which are prepended to texts
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transbeam.configs.base.atomic_files import refuse_lfs_pointer
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.export import ExportConfig
from transbeam.model.weights.checkpoints.hf_config import HFConfig

MODULES = "modules.json"

# Smallest length of a text with begin and end token; and a value that means no limit.
_SHORTEST, _NO_LIMIT = 3, 1_000_000


_Pooling = Literal["mean", "first", "max", "last"]
_POOLINGS: dict[str, _Pooling] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
# The names of newer versions, which have one key for the mode instead of flags.
_NAMED: dict[str, _Pooling] = {
    "cls": "first",
    "mean": "mean",
    "max": "max",
    "lasttoken": "last",
}


@dataclass
class SentenceTransformer:
    """Embedding settings of a sentence-transformers folder.

    Attributes:
        body: The folder of the Transformer itself.
        export: Embedding settings for our export.
        problems: Warnings on settings that are not imported, a sentence each.
        changes_vectors: True if a setting that is not imported makes our embeddings
            differ from the checkpoint's.
        is_body: True if the checkpoint is read without its head, as by the
            sentence-transformers module `Transformer`.
    """

    body: Path
    export: ExportConfig = field(default_factory=ExportConfig)
    problems: list[str] = field(default_factory=list)
    changes_vectors: bool = False
    is_body: bool = False

    def refuse_vectors(self, problem: str) -> None:
        """Adds a problem that makes the exported embeddings differ."""
        self.changes_vectors = True
        self.problems.append(problem)


def read_sentence_transformer(folder: Path) -> SentenceTransformer | None:
    """Reads a sentence-transformers folder; None if it has no list of modules.

    Raises:
        ArtifactError: A file is damaged.
    """
    file = folder / MODULES
    if not file.is_file():
        return None
    found = SentenceTransformer(folder)
    pooling: _Pooling = "mean"
    modules = _modules(file)
    for name, path in modules:
        match name:
            case "Transformer":
                found.body, found.is_body = folder / path, True
            case "Pooling":
                pooling = _read_pooling(folder / path, found)
            case "Normalize":
                pass
            case _:
                found.refuse_vectors(
                    f"{file}: the module {name} is not imported: vectors are those "
                    "that it is given"
                )
    names = [name for name, _ in modules]
    normalize = "Normalize" in names
    ours = ["Transformer", "Pooling", *["Normalize"] * normalize]
    if not found.changes_vectors and names != ours:
        found.refuse_vectors(
            f"{file}: the modules are {', '.join(names)}, expected {', '.join(ours)}: "
            "vectors are made by these alone, in this order"
        )
    found.export = ExportConfig(
        embedding_pooling=pooling,
        embedding_length=_read_length(found),
        normalize_embeddings=normalize,
    )
    _read_prompts(folder, found)
    return found


def _modules(file: Path) -> list[tuple[str, str]]:
    """Class and folder of each module."""
    refuse_lfs_pointer(file)
    try:
        modules = json.loads(file.read_bytes())
        if not isinstance(modules, list):
            raise TypeError("not a list")
        named = [(one["type"], one["path"]) for one in modules]
        if not all(isinstance(w, str) and w.isprintable() for w in sum(named, ())):
            raise TypeError("not text")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ArtifactError(
            f"{file}: is no list of modules with type and path ({error!r}). Fetch it "
            "again"
        ) from error
    for _, path in named:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ArtifactError(f"{file}: names a folder outside of its own: {path}")
    return [(kind.rpartition(".")[2], path) for kind, path in named]


def _read_pooling(folder: Path, found: SentenceTransformer) -> _Pooling:
    settings = HFConfig.of_file(folder / "config.json")
    flags = {
        key: value
        for key, value in settings.values.items()
        if key.startswith("pooling_mode_") and value is True
    }
    named: Any = settings.values.get("pooling_mode")
    named = [named] if isinstance(named, str) else named
    modes = named if isinstance(named, list) else list(flags)
    known: dict[str, _Pooling] = {**_POOLINGS, **_NAMED}
    if not settings.flag("include_prompt", True):
        found.problems.append(
            f"{settings.where}: include_prompt is not imported: what is sent before "
            "a text is pooled with it"
        )
    if len(modes) == 1 and modes[0] in list(known):
        return known[modes[0]]
    chosen = " with ".join(map(str, modes)) or "a missing pooling_mode"
    found.refuse_vectors(
        f"{settings.where}: {chosen} is not supported; "
        f"known here, one alone: {', '.join(_POOLINGS)}"
    )
    return "mean"


def _read_length(found: SentenceTransformer) -> int | None:
    # Older versions named it for the class of the model: sentence_roberta_config.json.
    for file in sorted(found.body.glob("sentence_*_config.json")):
        settings = HFConfig.of_file(file)
        if settings.flag("do_lower_case", False):
            found.problems.append(
                f"{file}: do_lower_case is not imported: texts are folded as the "
                "tokenizer says"
            )
        if "max_seq_length" in settings:
            return settings.integer("max_seq_length", minimum=_SHORTEST)
    file = found.body / "tokenizer_config.json"
    settings = HFConfig.of_file(file) if file.is_file() else HFConfig({}, str(file))
    length = settings.values.get("model_max_length")
    # Where there is no limit, transformers writes 1e30.
    is_limit = type(length) is int and _SHORTEST <= length < _NO_LIMIT
    return length if is_limit else None


def _read_prompts(folder: Path, found: SentenceTransformer) -> None:
    file = folder / "config_sentence_transformers.json"
    if not file.is_file():
        return
    settings = HFConfig.of_file(file)
    prompts = settings.section("prompts").values
    if any(prompts.values()):
        listed = ", ".join(f"{name}={text!r}" for name, text in prompts.items())
        default = settings.values.get("default_prompt_name")
        unasked = f" ({default} where none is named)" if default else ""
        found.problems.append(
            f"{file}: prompts are not put before texts; send them along: "
            f"{listed}{unasked}"
        )


def score_activation(folder: Path) -> str | None:
    """The activation that a `CrossEncoder` applies to its scores, if there is one.

    Args:
        folder: The checkpoint's folder, with the `config.json` of a `CrossEncoder`.

    Returns:
        Name of the activation; `Sigmoid` is the default. None if the activation is the
        identity.
    """
    settings = HFConfig.of_file(folder / "config.json")
    newer = settings.section("sentence_transformers").values.get("activation_fn")
    older = settings.values.get("sbert_ce_default_activation_function")
    name = str(newer or older or "Sigmoid").rpartition(".")[2]
    return None if name == "Identity" else name
