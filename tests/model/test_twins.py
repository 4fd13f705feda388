"""Every twin in `configs/tiny/` builds, reads its records and learns from them.

A twin is its preset at toy size, so what works here has its parts put together as the
preset has. That the small presets build at their own size is held in a slow test.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from configs.fitting import WITH_SEGMENTS
from configs.language_modelling import MaskedConfig
from configs.load import load_run
from configs.model import EncoderConfig
from configs.objective import Objective
from configs.run import RunConfig
from configs.supervised import (
    PairClassificationConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from model.build import build_model
from model.cost.report import count_cost
from pipeline.features import Feature
from pipeline.objectives import contract
from pipeline.objectives.masked import masked_features
from tests.model.gradients import value_and_gradients

CONFIGS = Path(__file__).parents[2] / "configs"
TWINS = sorted(path.stem for path in (CONFIGS / "tiny").glob("*.yaml"))
# What no twin is trained for, on the body of one.
OTHER_TASKS = [
    PairClassificationConfig(labels=("no", "yes")),
    TokenClassificationConfig(labels=("O", "NOUN", "VERB")),
    SpanQAConfig(max_question_length=16),
]
# The presets whose weights are less than half a gigabyte.
SMALL_PRESETS = [
    "bert_base",
    "bigbird_base",
    "classifier_small",
    "distilbert",
    "gpt2_small",
    "linformer_base",
    "longformer_base",
    "performer_base",
    "roberta_base",
    "t5_small",
    "transformer_base",
    "vit_base",
]
ROWS = 2


def twin(name: str) -> RunConfig:
    return load_run(CONFIGS / f"tiny/{name}.yaml", with_model=True)


def build(run: RunConfig, *, packed: bool) -> keras.Model:
    return build_model(
        run.model,
        run.objective,
        count_cost(run)["vocabulary_size"],
        packed=packed,
        segments=run.objective.kind in WITH_SEGMENTS,
        seed=run.seed,
    )


# ------------------------------------------------------------------- a batch of records


def features_of(run: RunConfig) -> tuple[Feature, ...]:
    """What the trainer gives a model: it makes the slots of dynamic masking itself."""
    objective, length = run.objective, run.data.sequence_length
    if isinstance(objective, MaskedConfig):
        return masked_features(length, objective.predictions_per_record(length))
    return contract(run)


def some_records(run: RunConfig, *, packed: bool) -> dict[str, np.ndarray]:
    """Records by the contract, with random tokens: as many as it takes to learn."""
    generator = np.random.default_rng(3)
    features = {feature.name: feature for feature in features_of(run)}
    sizes = {
        "token_ids": count_cost(run)["vocabulary_size"],
        "segment_ids": 2,
        "prefix_mask": 2,
        "image": 256,
        "masked_positions": run.data.sequence_length - 3,  # none is padding
    }
    records = {}
    for name, feature in features.items():
        shape = (ROWS, *feature.shape)
        part = name.removeprefix("encoder_").removeprefix("decoder_")
        if part == "document_ids":
            records[name] = documents(shape, packed)
        elif part == "position_ids":
            records[name] = places(records[name.replace("position", "document")])
        elif part in sizes:
            records[name] = generator.integers(0, sizes[part], shape)
    for name in [name for name in records if name.endswith("document_ids")]:
        mask = name.replace("document_ids", "padding_mask")
        records[mask] = records[name] > 0
    return {
        name: array.astype(features[name].dtype if name in features else "int32")
        for name, array in records.items()
    }


def documents(shape: tuple[int, ...], packed: bool) -> np.ndarray:
    """Three of uneven lengths in each row, or one; and a little padding."""
    ids = np.ones(shape, np.int64)
    if packed:
        ids[:, shape[1] // 4 :] = 2
        ids[:, shape[1] // 3 :] = 3
    ids[:, -3:] = 0
    return ids


def places(document_ids: np.ndarray) -> np.ndarray:
    column = np.arange(document_ids.shape[1])
    is_first = np.diff(document_ids, axis=1, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_first, column, 0), axis=1)
    return np.where(document_ids > 0, column - first, 0)


# ------------------------------------------------------------------------ one step of it


def cross_entropy(logits: Any, real: np.ndarray | None) -> Any:
    """Of targets drawn at random; padding has none."""
    *shape, classes = logits.shape
    targets = np.random.default_rng(5).integers(0, classes, shape)
    losses = keras.ops.sparse_categorical_crossentropy(
        targets, logits, from_logits=True
    )
    if real is not None and real.shape == tuple(shape):
        losses = losses * real.astype("float32")
    return keras.ops.mean(losses)


def learns_nothing(path: str, run: RunConfig) -> bool:
    """Whether a weight has no say in what the model answers.

    A key's bias adds the same to all scores of a query, and softmax takes it out
    again; not where keys are turned by their place.
    """
    softmax = run.model.attention.kind not in ("kernel", "low_rank")
    return softmax and run.model.position.kind != "rope" and path.endswith("key/bias")


def check(model: keras.Model, run: RunConfig, *, packed: bool) -> None:
    """The promises: counted, finite, and all of it learns."""
    records = some_records(run, packed=packed)
    inputs = {name: records[name] for name in model.input}
    mask = next((name for name in records if name.endswith("padding_mask")), None)
    if "decoder_padding_mask" in records:
        mask = "decoder_padding_mask"
    real = records[mask] if mask else None

    weights = model.trainable_weights
    counted = count_cost(run)["parameters"]["total_with_heads"]
    assert sum(np.prod(weight.shape, dtype=int) for weight in weights) == counted

    def loss() -> Any:
        outputs = model(inputs, training=True)
        return sum(cross_entropy(logits, real) for logits in outputs.values())

    value, gradients = value_and_gradients(loss, weights)
    assert np.isfinite(value)
    largest = {
        weight.path: float(np.abs(gradient).max())
        for weight, gradient in zip(weights, gradients, strict=True)
    }
    assert np.isfinite(list(largest.values())).all()
    idle = {path for path, size in largest.items() if size < 1e-7}
    import os
    if os.environ.get("DBG"):
        print(run.name, packed, float(value), "IDLE", idle, sorted(largest.items(), key=lambda kv: kv[1])[:6])
    assert idle == {path for path in largest if learns_nothing(path, run)}


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "alone"])
@pytest.mark.parametrize("name", TWINS)
def test_twin_learns_from_its_records(name, packed, randomise):
    run = twin(name)
    check(randomise(build(run, packed=packed), 0.2), run, packed=packed)
