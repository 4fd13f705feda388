"""Checks that a run's model is compatible with its records and the weights it loads.

The rules of this module are not part of `RunConfig`, because a run that only makes
records, or scores texts with another model, has no `model` section. `transbeam check`
and every command that uses the model apply the compatibility rules.
"""

from typing import Any, cast

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import plain
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    GlobalWindowAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    has_global_segment,
)
from transbeam.configs.schema.block import LearnedPositionConfig
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    PrefixConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    ImageObjective,
    Seq2SeqObjective,
)
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.objectives.traits import TRAITS, traits
from transbeam.configs.schema.run import RunConfig

DEFAULT_NEW_TOKENS = 64  # of a decoder


def check_model(run: RunConfig) -> None:
    """Checks that a run's model can be trained on its records.

    Raises:
        ConfigError: The values of some keys are incompatible; the message names the
            keys.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> check_model(RunConfig(name="gpt", data=data, objective=CausalConfig()))
    Traceback (most recent call last):
    ConfigError: model.kind=encoder does not go with ...
    """
    _check_family(run)
    _check_global_tokens(run)
    if isinstance(run.objective, ImageObjective):
        _check_images(run.objective, _patches(run))
        return
    if _patches(run) is not None:
        raise ConfigError(
            "model.patches: the model reads images, and the records of "
            f"objective.kind={run.objective.kind} are texts. Remove `patches`, or "
            "choose an objective of images"
        )
    _check_lengths(run)
    _check_prefix(run)
    _check_pooling(run)


def decoder_length(run: RunConfig) -> int:
    """Decoder tokens per record, for an encoder-decoder objective.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> source = TextSourceConfig(path="corpus.txt")
    >>> data = DataConfig(source=source, sequence_length=512)
    >>> decoder_length(
    ...     RunConfig(name="t5", data=data, objective=SpanCorruptionConfig())
    ... )
    184
    """
    objective = run.objective
    if isinstance(objective, SpanCorruptionConfig):
        return objective.target_length(run.data.sequence_length)
    assert isinstance(objective, Seq2SeqObjective)
    return objective.decoder_length


def answer_tokens(run: RunConfig) -> int:
    """Default number of new tokens of a decoder, at most half of its longest input.

    Example:
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> model = DecoderConfig(max_sequence_length=100)
    >>> answer_tokens(RunConfig(name="gpt", data=data, model=model))
    50
    """
    wanted = run.evaluation.max_new_tokens or DEFAULT_NEW_TOKENS
    return max(min(wanted, run.model.max_sequence_length // 2), 1)


def _patches(run: RunConfig) -> PatchesConfig | None:
    return run.model.patches if isinstance(run.model, EncoderConfig) else None


def _check_family(run: RunConfig) -> None:
    kind = run.objective.kind
    needed = traits(run.objective).models
    if run.model.kind not in needed:
        named = " or ".join(f"a{'n' * (each == 'encoder')} {each}" for each in needed)
        keys = " or ".join(f"`kind: {each}`" for each in needed)
        raise ConfigError(
            f"model.kind={run.model.kind} does not go with objective.kind={kind}, "
            f"which trains {named}. Write {keys} in `model`, or choose another "
            "objective"
        )


def _check_images(objective: ImageObjective, patches: PatchesConfig | None) -> None:
    if patches is None:
        raise ConfigError(
            f"objective.kind={objective.kind} needs a model that reads images. "
            f"Write `patches: {{image_size: {objective.image_size}, num_channels: "
            f"{objective.channels}}}` in `model`"
        )
    if patches.image_size != objective.image_size:
        raise ConfigError(
            f"model.patches.image_size={patches.image_size} is not "
            f"objective.image_size={objective.image_size}: make them the same"
        )
    if patches.num_channels != objective.channels:
        raise ConfigError(
            f"model.patches.num_channels={patches.num_channels} is not "
            f"objective.channels={objective.channels}: make them the same"
        )


def _check_global_tokens(run: RunConfig) -> None:
    """Checks that there is a first segment to be global, and room for a question."""
    attention = run.model.attention
    if not has_global_segment(attention):
        return
    assert isinstance(attention, GlobalWindowAttentionConfig)
    objective = run.objective
    if not traits(objective).has_segments:
        kinds = ", ".join(kind for kind, of in TRAITS.items() if of.has_segments)
        raise ConfigError(
            f"model.attention.global_tokens={attention.global_tokens}: the records of "
            f"objective.kind={objective.kind} have no two texts, of which the first "
            f"could be global, as those of {kinds} have. Remove it, and the first "
            "num_global_tokens tokens of each text are global"
        )
    if not isinstance(objective, SpanQAConfig):
        return
    needed = objective.max_question_length + 2
    if attention.num_global_tokens < needed:
        raise ConfigError(
            f"model.attention.num_global_tokens={attention.num_global_tokens} is less "
            f"than {needed}, the longest question with [CLS] and [SEP], of which "
            f"global_tokens={attention.global_tokens} makes every token global "
            f"(objective.max_question_length={objective.max_question_length}). Write "
            f"`num_global_tokens: {needed}`"
        )


def _check_lengths(run: RunConfig) -> None:
    """Checks that no record is longer than the model's maximum length."""
    objective, length = run.objective, run.data.sequence_length
    lengths = {f"data.sequence_length={length}": length}
    if isinstance(objective, Seq2SeqObjective):
        written = decoder_length(run)
        default = "" if objective.decoder_length else " (left out, by the encoder's)"
        lengths[f"objective.decoder_length={written}{default}"] = written
    for key, length in lengths.items():
        if length > run.model.max_sequence_length:
            raise ConfigError(
                f"{key} is more than "
                f"model.max_sequence_length={run.model.max_sequence_length}. Make the "
                "records shorter, or the model's longest input longer"
            )


def _check_prefix(run: RunConfig) -> None:
    """Checks that the attention is full, as the bidirectional prefix requires."""
    if not isinstance(run.objective, PrefixConfig):
        return
    assert isinstance(run.model, DecoderConfig)
    kind = run.model.attention.kind
    if kind != "full":
        raise ConfigError(
            f"model.attention.kind={kind} does not go with objective.kind=prefix, "
            "whose tokens all see the whole prefix, before them and after them. Write "
            "`kind: full`"
        )


def _check_pooling(run: RunConfig) -> None:
    """Checks that embeddings are exported with the pooling that they are trained with.

    The default of `export.embedding_pooling` does not contradict another pooler.
    """
    if not isinstance(run.objective, EmbeddingObjective):
        return
    assert isinstance(run.model, EncoderConfig | DecoderConfig)
    pooling = run.export.embedding_pooling
    trained = run.model.embedding_pooler.kind
    if pooling not in ("mean", trained):
        raise ConfigError(
            f"export.embedding_pooling={pooling} is not the pooling that "
            f"objective.kind={run.objective.kind} trains, "
            f"model.pooler.kind={trained}, with which its vectors are exported. "
            f"Remove it, or write `pooler: {{kind: {pooling}}}` in `model`"
        )


# Keys of `model` that may differ: they change no weight of the body, but for the length
# where each position has a weight.
FREE_MODEL_KEYS = (
    *("dropout", "initializer", "max_sequence_length", "pooler"),
    *("global_tokens", "num_global_tokens"),
)


def model_differences(there: RunConfig, here: RunConfig) -> list[str]:
    """Lists keys of `model` that differ although shared weights require equal values.

    Example:
    >>> from dataclasses import replace
    >>> from transbeam.configs.schema.data import DataConfig
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.configs.schema.sources import TextSourceConfig
    >>> data = DataConfig(source=TextSourceConfig(path="corpus.txt"))
    >>> four = RunConfig(name="bert", data=data, model=EncoderConfig(dropout=0.1))
    >>> six = replace(four, model=EncoderConfig(num_layers=6, dropout=0.0))
    >>> model_differences(four, six)
    ['model.num_layers: 4 there, 6 here']

    An encoder can be the encoder of an encoder-decoder; the decoder's own keys do not
    count.
    """
    old, new = (_leaves(plain(run.model), "model") for run in (there, here))
    if takes_encoder(there, here):
        own = _DECODER_KEYS
        has_positions = isinstance(there.model.position, LearnedPositionConfig)
        # The vectors of segments are added to those of positions.
        if has_positions or not old["model.num_segments"]:
            own += ("model.num_segments",)
        old, new = (
            {key: x for key, x in keys.items() if not key.startswith(own)}
            for keys in (old, new)
        )
    has_weights_of_positions = isinstance(
        here.model.position, LearnedPositionConfig
    ) or isinstance(here.model.attention, LowRankAttentionConfig)
    if has_weights_of_positions:
        key = "model.max_sequence_length"
        old[key], new[key] = (run.model.max_sequence_length for run in (there, here))
    if _draws_by_seed(here.model):
        # Features and blocks that are drawn by the seed are no weights.
        old["seed"], new["seed"] = there.seed, here.seed
    return [
        f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} here"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


_DECODER_KEYS = (
    "model.kind",
    "model.num_decoder_layers",
    "model.decoder_attention",
    "model.tie_embeddings",
    "model.scale_logits",
)


def takes_encoder(there: RunConfig, here: RunConfig) -> bool:
    """Returns whether an encoder's weights are those of an encoder-decoder's encoder.

    Args:
        there: The run whose weights are taken.
        here: The run that takes them.
    """
    is_encoder = isinstance(there.model, EncoderConfig)
    return is_encoder and isinstance(here.model, Seq2SeqModelConfig)


def _draws_by_seed(model: Model) -> bool:
    match model.attention:
        case KernelAttentionConfig(feature_map=features):
            return features != "elu"
        case BlockSparseAttentionConfig(num_random_blocks=number):
            return number > 0
        case _:
            return False


def _leaves(value: Any, path: str) -> dict[str, Any]:
    """Dotted keys and their values, without those in `FREE_MODEL_KEYS`."""
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", value).items():
        if name not in FREE_MODEL_KEYS:
            found |= _leaves(inner, f"{path}.{name}")
    return found
