"""Builds the model that a run trains: a backbone with its task head."""

from dataclasses import replace
from typing import assert_never

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    PoolerConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    PrefixConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import (
    DecoderObjective,
    EmbeddingObjective,
    FillsObjective,
    LabeledObjective,
    NumericObjective,
    Objective,
    PooledObjective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
    VectorObjective,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.model.decoder import (
    build_decoder,
    build_decoder_body,
)
from transbeam.model.encoder import build_encoder
from transbeam.model.functional.input_validation import CheckedModel, ids
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.stack.stack_spec import StackSpec, stack_specs
from transbeam.model.task_heads import classify, embed, estimate, predict_masked

__all__ = [
    "build_decoder",
    "build_decoder_body",
    "build_embedder",
    "build_encoder",
    "build_model",
    "build_seq2seq",
]


def build_model(
    config: Model,
    objective: Objective | None,
    vocabulary_size: int,
    *,
    packed: bool = False,
    segments: bool = True,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds the model of a run: a backbone with its task head.

    A head's layers are part of the same functional model as the encoder's layers, not
    wrapped around a nested model, so weights have the same paths here as in
    `build_encoder`.

    Shapes: `B` batch, `T` length, `P` masked positions, `V` vocabulary, `C` classes.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section of the run. None, as for a checkpoint without
            a head, raises an error: a model without an objective has no outputs to
            train.
        vocabulary_size: `V`.
        packed: See `build_encoder`.
        segments: See `build_encoder`; ignored for other architectures, which have no
            segments.
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model with the inputs of its architecture (see `build_encoder`,
        `build_decoder`, `build_seq2seq`). Outputs, float32 for every dtype policy:
        `logits`, `(B, P, V)` of masked tokens, with the further input
        `masked_positions`, int32 `(B, P)`; `(B, T, V)` of next tokens; `(B, C)` of
        classes; `(B, T, C)` of tags; for question answering `start_logits` and
        `end_logits` `(B, T)`; for regression `score` `(B,)`; for contrastive learning
        `embedding` `(B, D)`, of unit length, one for each text. For sentence pairs also
        `pair_logits` `(B, 2)`.

    Raises:
        ConfigError: The objective does not fit the architecture, or is None.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
    >>> model = build_model(
    ...     EncoderConfig(num_layers=1, hidden_dim=8), MaskedConfig(), 10
    ... )
    >>> sorted(model.input), model.output["logits"].shape
    (['masked_positions', 'padding_mask', 'token_ids'], (None, None, 10))

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3 and
          figure 4 (the heads of an encoder)
    """
    if objective is None:
        raise ConfigError(
            "objective=None: there is no head without an objective. Build the body "
            "alone by build_encoder(config, vocabulary_size), or give the objective "
            "that a new head is for"
        )
    if config.kind not in traits(objective).models:
        raise _does_not_fit(config, objective)
    options = {"packed": packed, "dtype": dtype, "seed": seed}
    if isinstance(config, EncoderConfig):
        options["segments"] = segments
        return _build_on_encoder(config, objective, vocabulary_size, options)
    if isinstance(config, DecoderConfig):
        if not isinstance(objective, DecoderObjective):
            return _build_on_decoder(config, objective, vocabulary_size, options)
        prefix = isinstance(objective, PrefixConfig)
        model = build_decoder(config, vocabulary_size, prefix=prefix, **options)
        name = "language_model"
    else:
        model = build_seq2seq(config, vocabulary_size, **options)
        name = "sequence_to_sequence"
    return CheckedModel(model.input, {"logits": model.output["logits"]}, name=name)


def build_embedder(
    config: EncoderConfig,
    vocabulary_size: int,
    *,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds an encoder that outputs one unit vector (L2 norm 1) for each text.

    Args:
        config: The `model` section of a run; without a pooler, mean pooling is used.
        vocabulary_size: `V`.
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model with the encoder's inputs and the output `embedding`, float32
        `(B, D)`.

    Example:
    >>> embedder = build_embedder(
    ...     EncoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> embedder.output["embedding"].shape
    (None, 8)

    References:
        - [Reimers & Gurevych, 2019](https://arxiv.org/abs/1908.10084), section 3
    """
    config = replace(config, pooler=config.embedding_pooler)
    encoder = build_encoder(config, vocabulary_size, dtype=dtype, seed=seed)
    outputs = {"embedding": embed(encoder.output["pooled_output"])}
    return CheckedModel(encoder.input, outputs, name="embedder")


def _build_on_encoder(
    config: EncoderConfig, objective: Objective, vocabulary_size: int, options: dict
) -> keras.Model:
    config = replace(config, pooler=_pooler(config, objective))
    encoder = build_encoder(config, vocabulary_size, **options)
    plan = stack_specs(config, dtype=options["dtype"], seed=options["seed"])["encoder"]
    inputs, sequence = dict(encoder.input), encoder.output["sequence_output"]
    x = encoder.output.get("pooled_output", sequence)
    outputs = {}
    if isinstance(objective, FillsObjective | SentencePairsConfig):
        inputs["masked_positions"] = ids("masked_positions")
        table = encoder.get_layer("token_embedding")
        positions = inputs["masked_positions"]
        outputs["logits"] = predict_masked(plan, table, sequence, positions)
    if isinstance(objective, FillsObjective):
        name = "masked_language_model"
    elif isinstance(objective, SentencePairsConfig):
        name = "masked_language_model"
        outputs["pair_logits"] = classify(plan, "pair_classifier", 2, x)
    elif isinstance(
        objective, LabeledObjective | NumericObjective | TokenChoiceObjective
    ):
        name, answers = _read_answer(plan, objective, x)
        outputs |= answers
    elif isinstance(objective, SpanObjective):
        name = "reader"
        scores = classify(plan, "span_classifier", 2, x)
        outputs["start_logits"] = scores[..., 0]
        outputs["end_logits"] = scores[..., 1]
    elif isinstance(objective, EmbeddingObjective):
        name = "embedder"
        outputs["embedding"] = embed(x)
    elif isinstance(objective, TextObjective):
        raise _does_not_fit(config, objective)
    else:
        assert_never(objective)
    return CheckedModel(inputs, outputs, name=name)


def _pooler(
    config: EncoderConfig | DecoderConfig, objective: Objective
) -> PoolerConfig | None:
    """Returns the pooler that the objective's head reads, or None."""
    if isinstance(objective, EmbeddingObjective):
        return config.embedding_pooler
    if isinstance(objective, PooledObjective):
        return config.text_pooler
    return None


def _build_on_decoder(
    config: DecoderConfig, objective: Objective, vocabulary_size: int, options: dict
) -> keras.Model:
    """Builds a head on a decoder, without a bias on a pooled vector, as in GPT.

    References:
        - [Radford et al., 2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf),
          equation 3
    """
    is_pooled = isinstance(objective, VectorObjective)
    config = replace(config, pooler=_pooler(config, objective))
    body = build_decoder_body(config, vocabulary_size, **options)
    x = body.output["pooled_output" if is_pooled else "sequence_output"]
    plan = stack_specs(config, dtype=options["dtype"], seed=options["seed"])["decoder"]
    if isinstance(objective, EmbeddingObjective):
        name, outputs = "embedder", {"embedding": embed(x)}
    elif isinstance(
        objective, LabeledObjective | NumericObjective | TokenChoiceObjective
    ):
        name, outputs = _read_answer(plan, objective, x, use_bias=not is_pooled)
    else:
        raise _does_not_fit(config, objective)
    return CheckedModel(body.input, outputs, name=name)


def _read_answer(
    plan: StackSpec,
    objective: LabeledObjective | NumericObjective | TokenChoiceObjective,
    x: keras.KerasTensor,
    *,
    use_bias: bool = True,
) -> tuple[str, dict[str, keras.KerasTensor]]:
    """Returns the name of a model with a head, and the outputs of the head."""
    if isinstance(objective, NumericObjective):
        score = estimate(plan, "regressor", x, use_bias=use_bias)
        return "regression_model", {"score": score}
    number = len(objective.labels)
    if isinstance(objective, TokenChoiceObjective):
        logits = classify(plan, "token_classifier", number, x, use_bias=use_bias)
        return "tagger", {"logits": logits}
    logits = classify(plan, "classifier", number, x, use_bias=use_bias)
    return "classifier_model", {"logits": logits}


def _does_not_fit(config: Model, objective: Objective) -> ConfigError:
    return ConfigError(
        f"objective.kind={objective.kind} does not go with model.kind={config.kind}; "
        "`transbeam explain objective` says which family each needs"
    )
