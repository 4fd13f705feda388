"""Every twin in `configs/tiny/` is built as counted, and learns from its records.

A twin is its preset at toy size, so what works here has its parts put together as the
preset has. The presets that a small machine holds are built in a thorough test.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.model.gradients import value_and_gradients
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.supervised import (
    PairClassificationConfig,
    PairRegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.model.cost.report import count_cost
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.objectives.masked import masked_features
from transbeam.pipeline.records.features import Feature

CONFIGS = Path(__file__).parents[2] / "configs"
TWINS = sorted(path.stem for path in (CONFIGS / "tiny").glob("*.yaml"))
# Of other sizes than a quick one's preset, with the same parts.
ONLY_THOROUGH = [
    "bert_large",
    "gpt2_medium",
    "gpt3_small",
    "gpt2_large",
    "gpt2_xl",
    "gpt3_medium",
    "gpt3_large",
    "gpt3_xl",
    "gpt3_2_7b",
    "gpt3_6_7b",
    "gpt3_13b",
    "gpt3_175b",
    "t5_base",
    "transformer_big",
]
# Tasks that no twin is trained for, put on the body of one.
OTHER_TASKS = [
    PairClassificationConfig(labels=("no", "yes")),
    PairRegressionConfig(),
    TokenClassificationConfig(labels=("O", "NOUN", "VERB")),
    SpanQAConfig(max_question_length=16),
]
# Those of fewer than 150 million weights.
SMALL_PRESETS = [
    "bert_base",
    "bigbird_base",
    "classifier_small",
    "distilbert",
    "gpt2_small",
    "linformer_base",
    "longformer_base",
    "performer_base",
    "phone_classifier",
    "phone_embedder",
    "phone_next_word",
    "roberta_base",
    "t5_small",
    "transformer_base",
    "vit_base",
]
# The objectives whose records hold several documents.
SEVERAL = (
    "masked",
    "causal",
    "prefix",
    "span_corruption",
    "seq2seq",
    "text_to_text",
)
ROWS = 2
PADDING = 3
SPREAD = 0.2  # of the weights: large enough that attention makes a difference
# Gradients of weights that learn are above 1e-3, the rounding errors of others below
# 1e-6.
NOTHING = 1e-5


def layouts(cases: list[Any], quick: list[Any]) -> list[Any]:
    """Each case packed and alone; of the quick ones one of both is quick, in turns."""
    found = []
    for case in cases:
        # An image is a record of its own.
        each = [False] if case == "vit_base" else [True, False]
        chosen = each[quick.index(case) % len(each)] if case in quick else None
        title = case if isinstance(case, str) else case.kind
        for packed in each:
            marks = () if packed is chosen else pytest.mark.thorough
            layout = "packed" if packed else "alone"
            found.append(
                pytest.param(case, packed, marks=marks, id=f"{title}-{layout}")
            )
    return found


@pytest.mark.parametrize(
    ("name", "packed"),
    layouts(TWINS, [name for name in TWINS if name not in ONLY_THOROUGH]),
)
def test_twin_learns_from_its_records(name, packed, randomise):
    run = load_run(CONFIGS / f"tiny/{name}.yaml", with_model=True)
    check(randomise(build(run, packed=packed), SPREAD), run, packed=packed)


@pytest.mark.parametrize(("task", "packed"), layouts(OTHER_TASKS, OTHER_TASKS))
def test_body_of_a_twin_learns_other_tasks(task, packed, randomise):
    bert = load_run(CONFIGS / "tiny/bert_base.yaml", with_model=True)
    run = replace(bert, objective=task)
    check(randomise(build(run, packed=packed), SPREAD), run, packed=packed)


@pytest.mark.thorough(instead="test_twin_learns_from_its_records")
@pytest.mark.parametrize("name", SMALL_PRESETS)
def test_preset_is_built_as_counted(name):
    run = load_run(CONFIGS / f"presets/{name}.yaml", with_model=True)
    keras.backend.clear_session()
    model = build(run, packed=False)
    counted = count_cost(run)["parameters"]["total_with_heads"]
    assert numbers_in(model.trainable_weights) == counted


def check(model: keras.Model, run: RunConfig, *, packed: bool) -> None:
    """The promises: counted, finite, and all of it learns."""
    weights = model.trainable_weights
    counted = count_cost(run)["parameters"]["total_with_heads"]
    assert numbers_in(weights) == counted

    records = some_records(run, packed=packed)
    inputs = {name: records[name] for name in model.input}
    real = records.get("decoder_padding_mask", records.get("padding_mask"))

    def loss() -> Any:
        outputs = model(inputs, training=True)
        if "score" in outputs:
            return keras.ops.mean(keras.ops.square(outputs["score"] - 1.0))
        return sum(cross_entropy(logits, real) for logits in outputs.values())

    value, gradients = value_and_gradients(loss, weights)
    assert np.isfinite(value)
    largest = {
        weight.path: float(np.abs(gradient).max())
        for weight, gradient in zip(weights, gradients, strict=True)
    }
    assert np.isfinite(list(largest.values())).all()
    idle = {path for path, size in largest.items() if size < NOTHING}
    assert idle == {path for path in largest if learns_nothing(path, run)}


def build(run: RunConfig, *, packed: bool) -> keras.Model:
    return build_model(
        run.model,
        run.objective,
        count_cost(run)["vocabulary_size"],
        packed=packed,
        segments=traits(run.objective).has_segments,
        seed=run.seed,
    )


def numbers_in(weights: Iterable[keras.Variable]) -> int:
    return sum(int(np.prod(weight.shape)) for weight in weights)


def learns_nothing(path: str, run: RunConfig) -> bool:
    """Returns whether a weight, for a known reason, does not affect the loss."""
    attention = run.model.attention.kind
    if attention == "global_window" and isinstance(run.objective, MaskedConfig):
        # The global token is the first of a text, and never asked for: nobody reads
        # what it finds in the last block.
        last = f"encoder_layer_{run.model.num_layers - 1}/self_attention/global_"
        if path.startswith(last):
            return True
    # What adds the same to all scores, softmax takes out again: here the bias that all
    # positions of a text have in common,
    if path == "span_classifier/bias":
        return True
    # and here that of a query's keys. Rotary positions turn it with the key, and it
    # counts.
    has_softmax_of_keys = attention not in ("kernel", "low_rank")
    is_turned = run.model.position.kind == "rope"
    return has_softmax_of_keys and not is_turned and path.endswith("key/bias")


# --------------------------------------------------------------------------- a batch


def some_records(run: RunConfig, *, packed: bool) -> dict[str, np.ndarray]:
    """Records by the contract, of random tokens, and the masks of those alone."""
    generator = np.random.default_rng(3)
    sizes = {
        "token_ids": count_cost(run)["vocabulary_size"],
        "segment_ids": 2,
        "image": 256,
    }
    several = packed and run.objective.kind in SEVERAL
    records: dict[str, np.ndarray] = {}
    for feature in features_of(run):
        prefix, name = split_prefix(feature.name)
        shape = (ROWS, *feature.shape)
        if name != "image" and len(shape) == 3:  # a row for each text of a record
            shape = (ROWS * shape[1], shape[2])
        if name in sizes:
            value = generator.integers(0, sizes[name], shape)
        elif name == "document_ids":
            value = documents(shape, several)
            records[f"{prefix}padding_mask"] = (value > 0).astype("int32")
        elif name == "position_ids":
            value = position_ids(records[f"{prefix}document_ids"])
        elif name == "prefix_mask":
            value = records["padding_mask"] * (records["position_ids"] < 4)
        elif name == "masked_positions":
            # The piece that begins a text is never hidden.
            inside = [np.flatnonzero(row) for row in records["position_ids"]]
            value = np.array([row[: shape[1]] for row in inside])
        else:
            continue  # a target
        records[feature.name] = value.astype(feature.dtype)
    return records


def features_of(run: RunConfig) -> tuple[Feature, ...]:
    """Features for the model; the trainer makes the slots of dynamic masking."""
    objective, length = run.objective, run.data.sequence_length
    if isinstance(objective, MaskedConfig):
        return masked_features(length, objective.predictions_per_record(length))
    return contract(run)


def split_prefix(name: str) -> tuple[str, str]:
    for prefix in ("encoder_", "decoder_"):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def documents(shape: tuple[int, ...], several: bool) -> np.ndarray:
    """One in each row, or three of different lengths; and a little padding."""
    ids = np.ones(shape, np.int32)
    if several:
        ids[:, shape[1] // 4 :] = 2
        ids[:, shape[1] // 3 :] = 3
    ids[:, -PADDING:] = 0
    return ids


def position_ids(document_ids: np.ndarray) -> np.ndarray:
    columns = np.arange(document_ids.shape[1])
    is_first = np.diff(document_ids, axis=1, prepend=0) != 0
    firsts = np.maximum.accumulate(np.where(is_first, columns, 0), axis=1)
    return (columns - firsts) * (document_ids > 0)


def cross_entropy(logits: Any, real: np.ndarray | None) -> Any:
    """The mean for targets drawn at random; padding has none."""
    *shape, classes = logits.shape
    targets = np.random.default_rng(5).integers(0, classes, shape)
    losses = keras.ops.sparse_categorical_crossentropy(
        targets, logits, from_logits=True
    )
    if real is not None and real.shape == tuple(shape):
        losses = losses * real.astype("float32")
    return keras.ops.mean(losses)
