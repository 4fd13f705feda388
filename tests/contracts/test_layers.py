"""The contract of every layer of `model/layers`. One row per public layer."""

import doctest
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import others_thorough
from transbeam.model import layers
from transbeam.model.layers.activations import gelu
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.kernel_attention import KernelAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.attention.probabilities import Probabilities
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.layers.block import TransformerBlock
from transbeam.model.layers.dense import Dense
from transbeam.model.layers.dropout import Dropout
from transbeam.model.layers.embeddings import SegmentEmbedding, TokenEmbedding
from transbeam.model.layers.feedforward import FeedForward, GatedFeedForward
from transbeam.model.layers.lm_head import (
    GatherTokens,
    VocabularyBias,
    VocabularyProjection,
)
from transbeam.model.layers.norms import LayerNormalization, RMSNormalization
from transbeam.model.layers.patches import ClassToken, PatchEmbedding
from transbeam.model.layers.pooling import Pooling
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.learned import LearnedPositionEmbedding
from transbeam.model.layers.positions.relative_bias import (
    RelativeBias,
    RelativeBiasTable,
)
from transbeam.model.layers.positions.rotary import RotaryEmbedding
from transbeam.model.layers.positions.sinusoidal import SinusoidalPositionEmbedding
from transbeam.model.layers.residual import (
    DropPathResidual,
    Residual,
    ReZeroResidual,
    ScaledResidual,
)

B, T, D = 3, 5, 8
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def ints(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, high, shape).astype("int32")


def packed() -> dict[str, np.ndarray]:
    """Places of rows packed with documents."""
    ids = np.array([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1], [1, 2, 2, 2, 2]])
    positions = np.array([[0, 1, 0, 1, 0], [0, 1, 2, 3, 4], [0, 0, 1, 2, 3]])
    return {
        "document_ids": ids.astype("int32"),
        "position_ids": positions.astype("int32"),
    }


def filled() -> dict[str, np.ndarray]:
    """Places of rows packed with documents, and no padding among them."""
    sequence_info = packed()
    sequence_info["document_ids"][0, 4], sequence_info["position_ids"][0, 4] = 2, 2
    return sequence_info


def padded() -> dict[str, np.ndarray]:
    """Places of rows of one document each."""
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    return {"padding_mask": mask.astype("int32")}


ATTENTION_WEIGHTS = {
    "query/kernel": (D, D),
    "key/kernel": (D, D // 2),
    "value/kernel": (D, D // 2),
    "output/kernel": (D, D),
    "query/bias": (D,),
    "key/bias": (D // 2,),
    "value/bias": (D // 2,),
    "output/bias": (D,),
}
FEEDFORWARD_WEIGHTS = {
    "intermediate/kernel": (D, 12),
    "intermediate/bias": (12,),
    "output/kernel": (12, D),
    "output/bias": (D,),
}
NORM_WEIGHTS = {"gamma": (D,), "beta": (D,)}


def normal(stddev: float = 0.3) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=stddev)


def attention(
    kind: type[keras.layers.Layer], **options: Any
) -> Callable[[str], keras.layers.Layer]:
    """Returns a factory of a kind of attention layer."""
    common = {
        "num_key_value_heads": 2,
        "head_dim": 2,
        "dropout": 0.1,
        "kernel_initializer": normal(),
        "output_initializer": normal(0.4),
        "seed": 4,
        "name": "self_attention",
        **options,
    }

    def build(dtype: str) -> keras.layers.Layer:
        # New ones each time: a part that was built before has another config.
        parts = {
            name: make(4 if make is LinearBias else 100.0, dtype="float32")
            for name, make in common.items()
            if name in ("score_bias", "rotary")
        }
        return kind(D, 4, **{**common, **parts}, dtype=dtype)

    return build


def feedforward(dtype: str) -> keras.layers.Layer:
    return FeedForward(
        D,
        12,
        kernel_initializer=normal(),
        seed=5,
        name="feedforward",
        dtype=dtype,
    )


def block(dtype: str) -> keras.layers.Layer:
    def residual(seed: int) -> keras.layers.Layer:
        return Residual(0.1, seed=seed, dtype=dtype)

    def norm(name: str) -> keras.layers.Layer:
        return LayerNormalization(name=name, dtype=dtype)

    small = {"output_initializer": normal(0.15)}
    cross = attention(CrossAttention, name="cross_attention", **small)
    return TransformerBlock(
        self_attention=attention(MultiHeadAttention, **small)(dtype),
        self_attention_norm=norm("self_attention_norm"),
        self_attention_residual=residual(6),
        cross_attention=cross(dtype),
        cross_attention_norm=norm("cross_attention_norm"),
        cross_attention_residual=residual(7),
        feedforward=feedforward(dtype),
        feedforward_norm=norm("feedforward_norm"),
        feedforward_residual=residual(8),
        norm_placement="pre",
        dtype=dtype,
    )


@dataclass(frozen=True)
class Case:
    """One layer, with no argument left at its default."""

    build: Callable[[str], keras.layers.Layer]
    inputs: dict[str, Any]  # arrays, or dicts of arrays
    weights: dict[str, tuple[int, ...]]
    passes_mask: bool = True
    # The dtype of the answer, where it is not the compute dtype.
    returns: str | None = None
    # Weights whose gradient is zero by mathematics, not by mistake.
    inert: frozenset[str] = field(default_factory=frozenset)


# A key's bias adds the same number to all scores of a query, unless keys turn with
# their positions; the softmax drops it. What is answered to padding means nothing, and
# need not be alike in all formats: some rows have none.
INERT = frozenset({"key/bias"})
KERNELS = {k: v for k, v in ATTENTION_WEIGHTS.items() if k.endswith("kernel")}
BARE = {"projection_bias": False, "output_bias": False, "scale_scores": False}
SCORED = {"causal": True, "score_bias": LinearBias, "rotary": RotaryEmbedding}
TOKENS = {"inputs": floats(B, T, D)}
UPDATES = {**TOKENS, "update": floats(B, T, D)}
CASES = [
    Case(
        lambda dtype: TokenEmbedding(
            11,
            D,
            vocabulary_multiple=4,
            scale=True,
            embeddings_initializer=normal(0.1),
            seed=4,
            dtype=dtype,
        ),
        {"inputs": ints(11, B, T)},
        {"embeddings": (12, D)},
    ),
    Case(
        lambda dtype: SegmentEmbedding(
            3, embeddings_initializer=normal(), seed=4, dtype=dtype
        ),
        {**TOKENS, "segment_ids": ints(3, B, T)},
        {"embeddings": (3, D)},
    ),
    Case(
        lambda dtype: LearnedPositionEmbedding(
            7, offset=2, embeddings_initializer=normal(), seed=4, dtype=dtype
        ),
        {**TOKENS, "position_ids": ints(7, B, T)},
        {"embeddings": (9, D)},
    ),
    Case(
        lambda dtype: SinusoidalPositionEmbedding(7, max_wavelength=50.0, dtype=dtype),
        {**TOKENS, "position_ids": ints(7, B, T)},
        {},
    ),
    Case(
        lambda dtype: RotaryEmbedding(
            base=100.0,
            stretch="yarn",
            factor=4.0,
            original_length=32,
            beta_fast=8.0,
            beta_slow=2.0,
            dtype=dtype,
        ),
        {"inputs": floats(B, T, 2, D), "position_ids": ints(7, B, T)},
        {},
    ),
    Case(
        lambda dtype: LinearBias(2, directed=True, dtype=dtype),
        {"query_positions": ints(7, B, T), "key_positions": ints(7, B, T + 2)},
        {},
        passes_mask=False,
        returns="float32",
    ),
    Case(  # as many buckets as rows: `fit` wants equal first axes
        lambda dtype: RelativeBias(
            B, max_distance=16, bidirectional=False, dtype=dtype
        ),
        {
            "query_positions": ints(7, B, T),
            "key_positions": ints(7, B, T + 2),
            "bias_table": floats(B, 2),
        },
        {},
        passes_mask=False,
        returns="float32",
    ),
    Case(
        lambda dtype: RelativeBiasTable(
            B, 2, embeddings_initializer=normal(), seed=4, dtype=dtype
        ),
        {"inputs": ints(11, B, T)},
        {"embeddings": (B, 2)},
        passes_mask=False,
        returns="float32",
    ),
    Case(
        attention(MultiHeadAttention, **BARE, **SCORED),
        {**TOKENS, "sequence_info": packed()},
        KERNELS,
        passes_mask=False,
    ),
    Case(
        attention(CrossAttention, **BARE, **SCORED),
        {
            **TOKENS,
            "context": floats(B, T + 1, D),
            "sequence_info": padded(),
            "context_info": {"padding_mask": ints(2, B, T + 1)},
        },
        KERNELS,
        passes_mask=False,
    ),
    Case(
        attention(SlidingWindowAttention, window_size=2, **SCORED),
        {**TOKENS, "sequence_info": packed()},
        ATTENTION_WEIGHTS,
        passes_mask=False,
    ),
    Case(
        attention(GlobalWindowAttention, window_size=2, num_global_tokens=2),
        {**TOKENS, "sequence_info": filled()},
        {
            **ATTENTION_WEIGHTS,
            **{
                f"global_{name}": shape
                for name, shape in ATTENTION_WEIGHTS.items()
                if not name.startswith("output")
            },
        },
        passes_mask=False,
        inert=INERT | {"global_key/bias"},
    ),
    Case(
        attention(BlockSparseAttention, block_size=1, num_random_blocks=1),
        {**TOKENS, "sequence_info": filled()},
        ATTENTION_WEIGHTS,
        passes_mask=False,
        inert=INERT,
    ),
    Case(
        attention(
            LowRankAttention,
            max_sequence_length=6,
            rank=2,
            share_key_value=True,
            max_documents=3,
        ),
        {**TOKENS, "sequence_info": padded()},
        {**ATTENTION_WEIGHTS, "key_summary": (6, 2)},
        passes_mask=False,
    ),
    Case(
        attention(
            KernelAttention,
            feature_map="relu",
            num_features=6,
            causal=True,
            dropout=0.0,
        ),
        {**TOKENS, "sequence_info": packed()},
        ATTENTION_WEIGHTS,
        passes_mask=False,
    ),
    Case(
        lambda dtype: Probabilities(dtype=dtype),
        {"inputs": floats(B, 2, T, T)},
        {},
        passes_mask=False,
    ),
    Case(
        lambda dtype: LayerNormalization(epsilon=1e-3, dtype=dtype),
        TOKENS,
        NORM_WEIGHTS,
    ),
    Case(
        lambda dtype: RMSNormalization(epsilon=1e-3, dtype=dtype),
        TOKENS,
        {"gamma": (D,)},
    ),
    Case(
        lambda dtype: FeedForward(
            D,
            12,
            activation="gelu_tanh",
            use_bias=False,
            dropout=0.1,
            kernel_initializer=normal(),
            output_initializer=normal(0.2),
            seed=5,
            dtype=dtype,
        ),
        TOKENS,
        {"intermediate/kernel": (D, 12), "output/kernel": (12, D)},
    ),
    Case(
        lambda dtype: GatedFeedForward(
            D,
            12,
            activation="gelu",
            use_bias=True,
            dropout=0.1,
            kernel_initializer=normal(),
            output_initializer=normal(0.2),
            seed=5,
            dtype=dtype,
        ),
        TOKENS,
        {"gate/kernel": (D, 12), "gate/bias": (12,), **FEEDFORWARD_WEIGHTS},
    ),
    Case(
        lambda dtype: Dense(
            7,
            activation=gelu,
            kernel_initializer=normal(),
            bias_initializer="ones",
            dtype=dtype,
        ),
        TOKENS,
        {"kernel": (D, 7), "bias": (7,)},
    ),
    Case(
        lambda dtype: Dropout(0.2, noise_shape=(None, 1, None), seed=4, dtype=dtype),
        TOKENS,
        {},
    ),
    Case(lambda dtype: Residual(dropout=0.2, seed=4, dtype=dtype), UPDATES, {}),
    Case(
        lambda dtype: ScaledResidual(3, dropout=0.2, seed=4, dtype=dtype), UPDATES, {}
    ),
    Case(
        lambda dtype: ReZeroResidual(dropout=0.2, seed=4, dtype=dtype),
        UPDATES,
        {"scale": ()},
        inert=frozenset({"before_update/kernel", "before_update/bias"}),
    ),
    Case(
        lambda dtype: DropPathResidual(0.3, dropout=0.2, seed=4, dtype=dtype),
        UPDATES,
        {},
    ),
    Case(
        block,
        {
            **TOKENS,
            "sequence_info": filled(),
            "context": floats(B, T, D),
            "context_info": filled(),
        },
        {
            **{f"self_attention/{k}": v for k, v in ATTENTION_WEIGHTS.items()},
            **{f"self_attention_norm/{k}": v for k, v in NORM_WEIGHTS.items()},
            **{f"cross_attention/{k}": v for k, v in ATTENTION_WEIGHTS.items()},
            **{f"cross_attention_norm/{k}": v for k, v in NORM_WEIGHTS.items()},
            **{f"feedforward/{k}": v for k, v in FEEDFORWARD_WEIGHTS.items()},
            **{f"feedforward_norm/{k}": v for k, v in NORM_WEIGHTS.items()},
        },
        passes_mask=False,
        inert=frozenset({"self_attention/key/bias", "cross_attention/key/bias"}),
    ),
    Case(
        lambda dtype: GatherTokens(dtype=dtype),
        {**TOKENS, "positions": ints(T, B, 2)},
        {},
        passes_mask=False,
    ),
    Case(
        lambda dtype: VocabularyBias(dtype=dtype),
        {"inputs": floats(B, T, 11)},
        {"bias": (11,)},
    ),
    Case(
        lambda dtype: VocabularyProjection(
            11, kernel_initializer=normal(), seed=4, dtype=dtype
        ),
        TOKENS,
        {"kernel": (D, 11)},
        returns="float32",
    ),
    Case(
        lambda dtype: Pooling(
            "attention", query_initializer=normal(), seed=4, dtype=dtype
        ),
        {**TOKENS, **padded()},
        {"query": (D,)},
        passes_mask=False,
    ),
    Case(
        lambda dtype: PatchEmbedding(
            2, D, kernel_initializer=normal(0.2), seed=4, dtype=dtype
        ),
        {"inputs": floats(B, 4, 6, 3)},
        {"kernel": (12, D), "bias": (D,)},
        passes_mask=False,
    ),
    Case(
        lambda dtype: ClassToken(embeddings_initializer=normal(), seed=4, dtype=dtype),
        TOKENS,
        {"embeddings": (1, D)},
        passes_mask=False,
    ),
]
# What others are built on: they have no answer of their own.
BASES = {
    "Attention",
    "ConfiguredLayer",
    "Int8Table",
    "SameShapeLayer",
    "TokenwiseLayer",
}


def main_answer(answer: Any) -> Any:
    """The first of several."""
    return next(iter(answer.values())) if isinstance(answer, dict) else answer


def call(layer: Any, case: Case) -> Any:
    """Calls a layer, built first, on the inputs."""
    answer = compiled_on_jax(lambda inputs: main_answer(layer(**inputs)))
    return answer(case.inputs)


def layer_name(case: Case) -> str:
    return type(case.build("float32")).__name__


each_layer = pytest.mark.parametrize("case", CASES, ids=layer_name)
each_policy = pytest.mark.parametrize("policy", POLICIES)


def public_layers() -> list[str]:
    return [
        name
        for info in pkgutil.walk_packages(layers.__path__, "transbeam.model.layers.")
        for name, thing in vars(importlib.import_module(info.name)).items()
        if inspect.isclass(thing)
        and issubclass(thing, keras.layers.Layer)
        and thing.__module__ == info.name
        and not name.startswith("_")
    ]


def arguments(layer: keras.layers.Layer) -> dict[str, inspect.Parameter]:
    inherited = inspect.signature(keras.layers.Layer.__init__).parameters
    constructor = type(layer).__init__
    if constructor is keras.layers.Dense.__init__:
        return {}  # Keras's own business
    parameters = inspect.signature(constructor).parameters
    return {k: v for k, v in parameters.items() if k not in inherited}


def symbols(case: Case, *, dynamic: bool = False) -> dict[str, Any]:
    def symbol(name: str, array: np.ndarray) -> keras.KerasTensor:
        shape = [
            # The last axis of a float input is a width, which is never dynamic.
            None if dynamic and (axis < 2 or array.dtype != "float32") else size
            for axis, size in enumerate(array.shape)
        ]
        return keras.Input(batch_shape=shape, dtype=array.dtype.name, name=name)

    return {
        name: {f"{key}": symbol(f"{name}_{key}", part) for key, part in array.items()}
        if isinstance(array, dict)
        else symbol(name, array)
        for name, array in case.inputs.items()
    }


def single_layer_model(case: Case, policy: str) -> keras.Model:
    inputs = symbols(case, dynamic=True)
    return keras.Model(inputs, main_answer(case.build(policy)(**inputs)))


def paths(layer: keras.layers.Layer) -> dict[str, tuple[int, ...]]:
    return {
        weight.path.removeprefix(f"{layer.name}/"): tuple(weight.shape)
        for weight in layer.weights
    }


def test_every_public_layer_has_a_row():
    assert sorted(map(layer_name, CASES)) == sorted(set(public_layers()) - BASES)


@each_layer
def test_an_example_is_shown(case):
    examples = doctest.DocTestFinder(recurse=False).find(type(case.build("float32")))
    assert sum(len(found.examples) for found in examples) > 0


@each_layer
def test_config_round_trip(case):
    layer = case.build("mixed_bfloat16")
    config = layer.get_config()
    for name, parameter in arguments(layer).items():
        assert config[name] != parameter.default, f"the row leaves {name} at default"

    written = json.dumps(keras.saving.serialize_keras_object(layer))
    copy = keras.saving.deserialize_keras_object(json.loads(written))
    assert type(copy) is type(layer)
    assert copy.get_config() == config
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert keras.saving.get_registered_name(type(layer)).startswith("transbeam>")


@each_layer
def test_weights_have_their_paths_and_shapes(case):
    layer = case.build("float32")
    layer(**symbols(case))
    assert paths(layer) == case.weights
    assert len(layer.trainable_weights) == len(layer.weights)


@each_layer
@each_policy
def test_what_is_announced_is_what_comes(case, policy):
    layer = case.build(policy)
    announced = main_answer(layer(**symbols(case)))
    free = main_answer(case.build(policy)(**symbols(case, dynamic=True)))
    answer = call(layer, case)

    assert tuple(announced.shape) == tuple(answer.shape)
    assert all(
        here in (None, there)
        for here, there in zip(free.shape, answer.shape, strict=True)
    )
    dtype = keras.backend.standardize_dtype(answer.dtype)
    assert announced.dtype == free.dtype == dtype
    assert dtype == (case.returns or layer.compute_dtype)
    assert np.isfinite(keras.ops.convert_to_numpy(answer).astype("float32")).all()


@each_layer
@pytest.mark.parametrize("policy", others_thorough(POLICIES, POLICIES[1:]))
def test_half_precision_is_close_to_float32(case, policy):
    exact, layer = case.build("float32"), case.build(policy)
    for either in (exact, layer):
        either(**symbols(case))
    layer.set_weights(exact.get_weights())
    expected = keras.ops.convert_to_numpy(call(exact, case))
    answer = keras.ops.convert_to_numpy(call(layer, case)).astype("float32")
    # Values are of size one. bfloat16 keeps 8 bits, float16 11, and a layer rounds
    # a handful of times.
    tolerance = {"float32": 0, "mixed_bfloat16": 0.06, "mixed_float16": 0.008}[policy]
    np.testing.assert_allclose(answer, expected, rtol=0, atol=tolerance)


@each_layer
def test_keras_mask(case):
    seen = []

    class Probe(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_masking = True

        def call(self, inputs, mask=None):
            seen.append(mask is not None)
            return inputs

        def compute_output_shape(self, inputs_shape):
            return inputs_shape

    inputs = symbols(case)
    first = next(iter(inputs))
    masked = {**inputs, first: keras.layers.Masking()(inputs[first])}
    if case.passes_mask:
        model = keras.Model(
            inputs, Probe()(main_answer(case.build("float32")(**masked)))
        )
        model(case.inputs)
        assert seen == [True]
    else:
        with pytest.warns(UserWarning, match="does not support mask"):
            case.build("float32")(**masked)


@each_layer
def test_saved_and_loaded_it_answers_the_same(case, tmp_path):
    model = single_layer_model(case, "float32")
    model.save(tmp_path / "layer.keras")
    copy = keras.saving.load_model(tmp_path / "layer.keras")
    assert [w.path for w in copy.weights] == [w.path for w in model.weights]
    old, new = (compiled_on_jax(either)(case.inputs) for either in (model, copy))
    np.testing.assert_array_equal(new, old)


# JAX has no other way than to compile.
@each_layer
@pytest.mark.parametrize(
    "eager", [False] if ON_JAX else others_thorough([True, False], [True])
)
def test_one_training_step_moves_every_weight(case, eager):
    layer = case.build("float32")
    inputs = symbols(case)
    x = dict(inputs)
    for name, given in inputs.items():  # the gradient must pass through as well
        if not isinstance(given, dict) and given.dtype == "float32":
            before = keras.layers.Dense(given.shape[-1], name=f"before_{name}")
            x[name] = before(given)
    model = keras.Model(inputs, main_answer(layer(**x)))
    if not model.trainable_weights:
        pytest.skip("no weights, and no inputs with a gradient")
    model.compile(
        keras.optimizers.SGD(1.0),
        "mse",
        run_eagerly=eager,
        jit_compile=ON_JAX,
    )

    old = {weight.path: weight.numpy() for weight in model.trainable_weights}
    history = model.fit(case.inputs, floats(*model.output.shape), verbose=0)

    assert np.isfinite(history.history["loss"][0])
    for weight in model.trainable_weights:
        change = np.abs(weight.numpy() - old[weight.path]).max()
        if weight.path.removeprefix(f"{layer.name}/") in case.inert:
            assert change < 1e-6, weight.path
        else:
            assert change > 1e-6, weight.path
