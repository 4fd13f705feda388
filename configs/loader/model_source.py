"""`model: {preset: bert_base}` and `model: {init_from: runs/bert}`.

The keys `preset` and `init_from` each select a complete model; the other keys of the
section modify it. `preset` and `init_from` are replaced by the selected model's keys
before the configuration is parsed, so a run has the same configuration and fingerprints
as a run whose keys are all written by hand.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.base.local_paths import local_path
from transbeam.configs.base.reflection import did_you_mean, section_keys
from transbeam.configs.loader.compatibility import model_differences
from transbeam.configs.loader.extends import Chain, read_root
from transbeam.configs.loader.model_files import ModelFiles, find_model_files
from transbeam.configs.loader.parse_dataclasses import bind_section
from transbeam.configs.loader.run_file import preset_files
from transbeam.configs.loader.yaml_merge import is_null, merge_sections, without_keys
from transbeam.configs.loader.yaml_nodes import (
    Node,
    YamlScalar,
    YamlSection,
    complain,
    compose,
    read_text,
)
from transbeam.configs.schema.inheritance import ModelInheritanceConfig
from transbeam.configs.schema.model import EncoderConfig
from transbeam.configs.schema.run import RunConfig

Rule = Callable[[RunConfig], None]
_KEYS = section_keys(ModelInheritanceConfig)


def with_model_source(
    root: YamlSection, chain: Chain
) -> tuple[YamlSection, tuple[Rule, ...]]:
    """Merges a configuration over the model that it names.

    Args:
        root: The configuration, after `extends` and all overrides are applied.
        chain: Resolved paths of the files that refer to this configuration, directly or
            indirectly.

    Returns:
        The configuration without `preset` and `init_from`, and checks to apply once it
        is parsed.

    Raises:
        ConfigError: The preset or the run does not exist, or the run has no model; or
            both `preset` and `init_from`, or two sources of initial weights, are given.
    """
    model = root.nodes.get("model")
    if not isinstance(model, YamlSection):
        return root, ()
    given = {name: node for name, node in model.nodes.items() if name in _KEYS}
    source = bind_section(ModelInheritanceConfig, replace(model, nodes=given), "model")
    own = {name: node for name, node in model.nodes.items() if name not in _KEYS}
    root = replace(root, nodes={**root.nodes, "model": replace(model, nodes=own)})
    if source.preset is not None and source.init_from is not None:
        raise complain(
            given["preset"].where,
            "model.preset",
            f"names a whole model, as does `init_from: {source.init_from}` "
            f"({given['init_from'].where}). Remove one of them",
        )
    if source.preset is not None:
        return _over_preset(root, source.preset, given["preset"].where), ()
    if source.init_from is not None:
        return _over_run(root, source.init_from, given["init_from"].where, chain)
    return root, ()


def _over_preset(root: YamlSection, name: str, where: str) -> YamlSection:
    presets = preset_files()
    if name not in presets:
        hint = did_you_mean(Path(name).stem, presets)
        raise complain(
            where,
            "model.preset",
            f"no such preset: {name!r}.{hint} Known here: {', '.join(presets)}.",
        )
    # By the name that it has in the project, wherever that is installed.
    file = f"configs/presets/{name}.yaml"
    preset = compose(read_text(presets[name]), lambda line: f"{file}:{line}")
    assert isinstance(preset, YamlSection)
    return merge_sections(replace(preset, nodes={"model": preset.nodes["model"]}), root)


def _over_run(
    root: YamlSection, name: str, where: str, chain: Chain
) -> tuple[YamlSection, tuple[Rule, ...]]:
    """Merges a configuration over the model, tokenizer and weights of a run."""
    training = root.nodes.get("training")
    if isinstance(training, YamlSection):
        older = training.nodes.get("init_from")
        if older is not None and not is_null(older):
            raise complain(
                where,
                "model.init_from",
                "a training begins once, and `training.init_from` is the older "
                f"spelling of the same ({older.where}). Remove one of them",
            )
    # One that is null says nothing, and must not take the weights away.
    root = without_keys(root, "training", ("init_from",))
    try:
        files = _model_files(_expanded(name), chain)
        there_root, there = _configuration(files.config, chain)
    except UserError as error:
        raise complain(where, "model.init_from", str(error)) from None
    nodes = {key: there_root.nodes[key] for key in ["model"] if key in there_root.nodes}
    nodes["training"] = YamlSection(where, _beginning(name, where, training is None))
    reads_images = isinstance(there.model, EncoderConfig) and there.model.patches
    if not reads_images:
        _refuse_other_tokenizer(root, name, where, files.tokenizer)
        if files.tokenizer is not None:
            nodes["tokenizer"] = YamlSection(
                where,
                {
                    "kind": YamlScalar(where, "pretrained", quoted=True),
                    "path": YamlScalar(where, str(files.tokenizer), quoted=True),
                },
            )

    def rule(here: RunConfig) -> None:
        if differing := model_differences(there, here):
            raise ConfigError(
                f"{'; '.join(differing)}: model.init_from={name} takes the weights of "
                f"that run's model, which these keys change. Remove them; {_FREE}"
            )

    return merge_sections(YamlSection(where, nodes), root), (rule,)


_FREE = (
    "only dropout, initializer, pooler and which tokens are global may differ, and "
    "max_sequence_length where positions have no weights"
)


def _expanded(name: str) -> Path:
    path = local_path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{name}: there is no such user. Write the path out"
        ) from None


def _model_files(folder: Path, chain: Chain) -> ModelFiles:
    """Finds the files of a run's model, all of which must exist."""
    files = find_model_files(folder)
    for file in (files.config, files.weights):
        if not file.is_file():
            raise ConfigError(
                f"{file}: is not there, though the run that it is of has finished. Put "
                "it back, or make that run again"
            )
    if files.config.resolve() in chain:
        raise ConfigError(
            f"{folder}: its {files.config.name} leads back to this file. Name the run "
            "whose weights are meant"
        )
    return files


def _configuration(file: Path, chain: Chain) -> tuple[YamlSection, RunConfig]:
    """Reads the configuration of another run."""
    root = read_root(read_text(file), str(file), chain)
    root, _ = with_model_source(root, (*chain, file.resolve()))
    return root, bind_section(RunConfig, root, path="")


def _beginning(name: str, where: str, is_alone: bool) -> dict[str, Node]:
    """Returns the keys of `training` that load another run's weights.

    Args:
        name: The run whose weights are loaded.
        where: The origin of the key that names this run: `file:line`, or the `--set`
            override.
        is_alone: True if the configuration has no `training` section; the default
            number of steps is then used. An existing `training` section must contain
            the number of steps.
    """
    nodes: dict[str, Node] = {"init_from": YamlScalar(where, name, quoted=True)}
    if is_alone:
        steps = section_keys(RunConfig)["training"].default.steps
        nodes["steps"] = YamlScalar(where, str(steps), quoted=False)
    return nodes


def _refuse_other_tokenizer(
    root: YamlSection, name: str, where: str, theirs: Path | None
) -> None:
    """Rejects a tokenizer whose ids differ from those of the loaded weights."""
    given = root.nodes.get("tokenizer")
    if not isinstance(given, YamlSection) or not given.nodes:
        if theirs is None:
            raise complain(
                where,
                "model.init_from",
                f"{name} was imported without a tokenizer, so none comes with its "
                "weights. Name the one it was trained with: `tokenizer: {kind: "
                "pretrained, path: ...}`",
            )
        return
    kind = given.nodes.get("kind")
    if theirs is None or kind is None:
        return
    if isinstance(kind, YamlScalar) and kind.value != "pretrained":
        raise complain(
            kind.where,
            "tokenizer.kind",
            f"a newly trained tokenizer gives other ids than that of {name}, "
            f"which model.init_from brings ({where}). Remove `tokenizer`",
        )
