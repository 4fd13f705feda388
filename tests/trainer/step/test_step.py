"""An update: what it computes, and what must not make a difference."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.model.conftest import ON_JAX, jax_only, others_thorough, without_jax
from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from tests.trainer.conftest import eagerly
from transbeam.configs.schema.attention import GlobalWindowAttentionConfig
from transbeam.configs.schema.block import (
    DropPathResidualConfig,
    RelativeBiasPositionConfig,
)
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.layers.block import TransformerBlock
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.targets import make_targets
from transbeam.trainer.step import batch as batches
from transbeam.trainer.step.build import build_evaluation, build_step
from transbeam.trainer.step.state import TrainState

# What is asked in other ways: choices at masks and of a record, at every token, ends of
# a span, a number, and of an image.
OFTEN = ("sentence_pairs", "seq2seq", "span_qa", "regression", "image_classification")


def training(**keys) -> TrainingConfig:
    return TrainingConfig(steps=100, **keys)


def make(kind: str, config: TrainingConfig, *, rate=0.1, dropout=0.0, **loss_options):
    """A state with plain gradient descent, so that an update shows the gradient."""
    model = small_model(OBJECTIVES[kind], dropout=dropout)
    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(model.trainable_variables)
    state = TrainState(model, optimizer, config)
    loss = Loss(make_targets(OBJECTIVES[kind]), **loss_options)
    return state, loss, build_step(state, loss, config)


def values(variables) -> list[np.ndarray]:
    return [ops.convert_to_numpy(variable.value) for variable in variables]


def after(kind: str, batches, *, dropout=0.0, **keys):
    """Weights before and after some updates, and the last numbers."""
    state, _, update = make(kind, training(batch_size=8, **keys), dropout=dropout)
    before = values(state.model.trainable_variables)
    for batch in batches:
        numbers = update(batch)
    return before, values(state.model.trainable_variables), numbers


@pytest.mark.parametrize(
    "kind", others_thorough(OBJECTIVES, ("sentence_pairs",) if ON_JAX else OFTEN)
)
def test_accumulated_is_the_whole_batch(kind) -> None:
    batches = [random_batch(OBJECTIVES[kind], 8, seed) for seed in range(2)]
    before, whole, numbers = after(kind, batches)
    _, parts, part_numbers = after(kind, batches, accumulation=4)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)
    assert any(np.abs(a - c).max() > 1e-3 for a, c in zip(whole, before, strict=True))
    for x, y in zip(
        keras.tree.flatten(numbers), keras.tree.flatten(part_numbers), strict=True
    ):
        np.testing.assert_allclose(
            ops.convert_to_numpy(x), ops.convert_to_numpy(y), rtol=2e-5
        )


@jax_only
def test_what_was_before_takes_no_memory() -> None:
    """Neither of what is trained nor of what is not, often most of a model."""
    config = training(batch_size=8)
    state, _, update = make("masked", config, dropout=0.1)
    variables = [*state.model.variables, *state.optimizer.variables]
    before = [variable.value for variable in variables]
    assert len(state.model.trainable_variables) < len(state.model.variables)
    update(random_batch(OBJECTIVES["masked"], 8))
    assert all(value.is_deleted() for value in before)


@eagerly
@pytest.mark.parametrize("kind", ["masked", pytest.param("seq2seq", marks=without_jax)])
def test_scores_by_and_by_are_all_scores_at_once(kind, monkeypatch) -> None:
    """Of a head with a bias, and of a table that is also read, with all of the loss."""
    batch = random_batch(OBJECTIVES[kind], 8, 0)

    def weights_after(accumulation: int) -> list[np.ndarray]:
        config = training(batch_size=8, accumulation=accumulation)
        state, _, update = make(kind, config, label_smoothing=0.1, z_loss=0.01)
        update(batch)
        return values(state.model.trainable_variables)

    ours = weights_after(2)
    monkeypatch.setattr(batches, "without_scores", lambda model: None)
    for a, b in zip(ours, weights_after(1), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


TWICE = GlobalWindowAttentionConfig(num_heads=2, window_size=4, dropout=0.3)


@pytest.mark.parametrize(
    ("kind", "attention"),
    [
        pytest.param(
            "causal",
            {},
            marks=pytest.mark.thorough(instead="test_computed_again_is_what_was_kept"),
        ),
        pytest.param("seq2seq", {}, marks=without_jax),
        ("masked", {"attention": TWICE}),  # which drops twice in a call
    ],
    ids=str,
)
def test_computed_again_is_what_was_kept(kind, attention) -> None:
    """With the same dropout, and gradients into the context and the shared table."""
    batches = [random_batch(OBJECTIVES[kind], 8, seed) for seed in range(2)]
    results = []
    for again in (False, True):
        model = small_model(
            OBJECTIVES[kind],
            dropout=0.3,
            position=RelativeBiasPositionConfig(),
            residual=DropPathResidualConfig(rate=0.2),
            **attention,
        )
        for layer in model.layers:
            if isinstance(layer, TransformerBlock):
                layer.rematerialize = again
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build(model.trainable_variables)
        config = training(batch_size=8)
        state = TrainState(model, optimizer, config)
        update = build_step(state, Loss(make_targets(OBJECTIVES[kind])), config)
        before = values(model.trainable_variables)
        for batch in batches:
            update(batch)
        after = values(model.trainable_variables)
        results.append([new - old for new, old in zip(after, before, strict=True)])
    for kept, again in zip(*results, strict=True):
        np.testing.assert_allclose(kept, again, rtol=0, atol=1e-6)
    moved = [np.abs(kept).max() for kept in results[0]]
    assert max(moved) > 1e-3


@pytest.mark.parametrize(
    "kind", others_thorough(OBJECTIVES, ("seq2seq",) if ON_JAX else OFTEN)
)
def test_learns_one_batch_by_heart(kind) -> None:
    config = training(batch_size=8)
    state, loss, update = make(kind, config, rate=0.5)
    batch = random_batch(OBJECTIVES[kind], 4)
    first = float(update(batch)["loss"])
    for _ in range(60):
        numbers = update(batch)
    assert float(numbers["loss"]) < 0.7 * first
    forward = build_evaluation(state.model, loss)
    mean = sum(
        float(ops.sum(answer["cost"]) / ops.sum(answer["count"]))
        for answer in forward(batch).values()
    )
    assert mean < 0.7 * first


def test_the_loss_by_hand() -> None:
    state, _, update = make("causal", training(), rate=0.0)
    batch = random_batch(OBJECTIVES["causal"], 4)
    names = [tensor.name for tensor in state.model.inputs]
    outputs = state.model({name: batch[name] for name in names})
    scores = ops.convert_to_numpy(outputs["logits"]).astype("float64")
    chances = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    right = np.take_along_axis(chances, batch["target_ids"][..., None], -1)[..., 0]
    asked = batch["target_weights"] > 0
    numbers = update(batch)
    assert float(numbers["loss"]) == pytest.approx(-np.log(right[asked]).mean(), 1e-5)
    sums = numbers["sums"]["logits"]
    assert float(sums["count"]) == asked.sum()
    hits = scores.argmax(-1) == batch["target_ids"]
    assert float(sums["correct"]) == hits[asked].sum()


@eagerly
def test_padding_has_no_say() -> None:
    batch = random_batch(OBJECTIVES["causal"], 4)
    other = dict(batch)
    unasked = batch["target_weights"] == 0
    other["target_ids"] = np.where(unasked, 7, batch["target_ids"])
    padded = batch["document_ids"] == 0
    other["token_ids"] = np.where(padded, 9, batch["token_ids"])
    keys = {"label_smoothing": 0.1, "z_loss": 0.01}
    results = []
    for given in (batch, other):
        state, _, update = make("causal", training(), **keys)
        results.append((float(update(given)["loss"]), state.model.get_weights()))
    assert results[0][0] == results[1][0]
    for a, b in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_smoothing_and_z_loss_by_hand() -> None:
    scores = np.array([[[1.0, 3.0, 0.5], [9.0, 9.0, 9.0]]], "float32")
    batch = {"target_ids": np.array([[1, 0]]), "target_weights": np.array([[1.0, 0]])}
    loss = Loss(make_targets(OBJECTIVES["causal"]), label_smoothing=0.3, z_loss=0.01)
    value, sums = loss({"logits": scores}, batch, loss.counts(batch))
    log_sum = np.log(np.exp(scores[0, 0]).sum())
    wanted = np.array([0.1, 0.8, 0.1])
    nats = (wanted * (log_sum - scores[0, 0])).sum()
    assert float(value) == pytest.approx(nats + 0.01 * log_sum**2, rel=1e-6)
    assert float(sums["logits"]["cost"]) == pytest.approx(log_sum - 3.0, rel=1e-6)


@eagerly
def test_clipped_after_it_is_added_up() -> None:
    batch = random_batch(OBJECTIVES["causal"], 8)
    before, _, numbers = after("causal", [batch], clip_norm=None)
    norm = float(numbers["gradient_norm"])
    limit = norm / 3
    changes = {}
    for parts in (1, 4):
        _, weights, numbers = after(
            "causal", [batch], clip_norm=limit, accumulation=parts
        )
        assert float(numbers["gradient_norm"]) == pytest.approx(norm, rel=1e-5)
        changes[parts] = [w - b for w, b in zip(weights, before, strict=True)]
    for clipped, in_parts in zip(changes[1], changes[4], strict=True):
        np.testing.assert_allclose(in_parts, clipped, atol=1e-6)
    total = np.sqrt(sum((change**2).sum() for change in changes[1]))
    assert total == pytest.approx(0.1 * limit, rel=1e-3)


PARTS = {
    "seq2seq": ["embeddings", "encoder_layer_0", "decoder_layer_0"],
    "masked": ["embeddings", "encoder_layer_0", "head"],
}


@pytest.mark.parametrize(
    ("kind", "accumulation"),
    [("masked", 4), pytest.param("seq2seq", 1, marks=without_jax)],
)
def test_the_norms_of_parts_are_those_of_what_plain_descent_changes(
    kind, accumulation
) -> None:
    """Before clipping, of the whole batch; each weight is in one part."""
    batch = random_batch(OBJECTIVES[kind], 8)
    keys = {"batch_size": 8, "accumulation": accumulation}
    state, _, update = make(kind, training(clip_norm=None, **keys), rate=1.0)
    paths = [weight.path for weight in state.model.trainable_variables]
    before = values(state.model.trainable_variables)
    numbers = update(batch)
    changes = zip(before, values(state.model.trainable_variables), strict=True)
    squares = [((old - new).astype("float64") ** 2).sum() for old, new in changes]
    by_hand: dict[str, float] = {}
    for path, square in zip(paths, squares, strict=True):
        layer = path.split("/")[0]
        part = layer if "_layer_" in layer else "head" if "head" in layer else ""
        by_hand[part] = by_hand.get(part, 0.0) + square
    by_hand["embeddings"] = by_hand.pop("")
    assert list(state.parts) == PARTS[kind]
    norms = ops.convert_to_numpy(numbers["gradient_norms"])
    assert norms.dtype == "float32"
    assert dict(zip(state.parts, norms, strict=True)) == pytest.approx(
        {part: np.sqrt(square) for part, square in by_hand.items()}, rel=1e-3, abs=1e-6
    )
    assert float(numbers["gradient_norm"]) == pytest.approx(
        np.sqrt((norms.astype("float64") ** 2).sum()), rel=1e-6
    )
    _, _, clipped = make(kind, training(clip_norm=1e-3, **keys))
    again = ops.convert_to_numpy(clipped(batch)["gradient_norms"])
    np.testing.assert_allclose(again, norms, rtol=1e-5)


def test_a_loss_that_is_not_finite_changes_nothing_and_is_counted() -> None:
    config = training(ema_decay=0.9)
    state, _, update = make("causal", config)
    good = random_batch(OBJECTIVES["causal"], 4)
    weights = np.where(good["target_weights"] > 0, np.float32("inf"), np.float32(0))
    bad = {**good, "target_weights": weights}
    update(good)
    before = [values(part) for part in (state.model.weights, state.averages)]
    steps = int(state.optimizer.iterations.value)
    for number in (1, 2):
        assert int(update(bad)["skipped"]) == 1
        assert int(state.skipped_in_a_row.value) == number
    unchanged = [values(part) for part in (state.model.weights, state.averages)]
    for a, b in zip(
        keras.tree.flatten(before), keras.tree.flatten(unchanged), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert int(state.optimizer.iterations.value) == steps
    assert int(update(good)["skipped"]) == 0
    assert int(state.skipped_in_a_row.value) == 0
    assert int(state.skipped.value) == 2


def test_the_moving_average_by_hand() -> None:
    state, _, update = make("causal", training(ema_decay=0.75))
    average = values(state.model.trainable_variables)
    for seed in range(3):
        update(random_batch(OBJECTIVES["causal"], 4, seed))
        weights = values(state.model.trainable_variables)
        pairs = zip(average, weights, strict=True)
        average = [0.75 * a + 0.25 * w for a, w in pairs]
    for a, b in zip(values(state.averages), average, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_dropout_goes_on_from_update_to_update() -> None:
    batch = random_batch(OBJECTIVES["causal"], 4)
    _, _, update = make("causal", training(), rate=0.0, dropout=0.5)
    losses = [float(update(batch)["loss"]) for _ in range(3)]
    assert len(set(losses)) == 3
    _, _, repeat = make("causal", training(), rate=0.0, dropout=0.5)
    assert [float(repeat(batch)["loss"]) for _ in range(3)] == losses


def test_float16_scales_its_loss_and_finds_a_scale() -> None:
    config = training(precision="mixed_float16", clip_norm=None)
    model = small_model(OBJECTIVES["causal"], dtype="mixed_float16")
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    state = TrainState(model, optimizer, config)
    state.loss_scale.assign(2.0**40)  # too much for float16
    update = build_step(state, Loss(make_targets(OBJECTIVES["causal"])), config)
    batch = random_batch(OBJECTIVES["causal"], 4)
    skipped = [int(update(batch)["skipped"]) for _ in range(40)]
    assert skipped[0] == 1
    assert skipped[-1] == 0
    scale = float(state.loss_scale.value)
    assert scale == 2.0 ** (40 - sum(skipped))
    state.loss_scale.assign(256.0)  # far from the edge
    state.since_skipped.assign(1_999)
    update(batch)
    assert float(state.loss_scale.value) == 512.0
    assert int(state.since_skipped.value) == 0


@eagerly
def test_weights_like_float32_with_any_loss_scale() -> None:
    """The scale is divided out before clipping."""
    batch = random_batch(OBJECTIVES["causal"], 4)
    results = []
    for scale in (1.0, 1024.0):
        config = training(precision="mixed_float16", clip_norm=0.1)
        state, _, update = make("causal", config)  # a float32 model
        state.loss_scale.assign(scale)
        numbers = update(batch)
        norms = ops.convert_to_numpy(numbers["gradient_norms"])
        results.append(([float(numbers["gradient_norm"]), *norms], state))
    (norms, one), (scaled_norms, other) = results
    assert scaled_norms == pytest.approx(norms, rel=1e-5)
    for a, b in zip(
        values(one.model.weights), values(other.model.weights), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_batch_without_targets_teaches_nothing() -> None:
    batch = random_batch(OBJECTIVES["causal"], 4)
    batch["target_weights"] = np.zeros_like(batch["target_weights"])
    before, weights, numbers = after("causal", [batch])
    assert float(numbers["loss"]) == 0.0
    for a, b in zip(before, weights, strict=True):
        np.testing.assert_array_equal(a, b)


def pruned_state(config: TrainingConfig, optimizer) -> TrainState:
    """A state in which every kernel of a decoder may be pruned."""
    model = small_model(OBJECTIVES["causal"])
    optimizer.build(model.trainable_variables)
    kernels = [w for w in model.trainable_variables if w.path.endswith("/kernel")]
    return TrainState(model, optimizer, config, kernels)


def draw_masks(state: TrainState, share: float) -> list[np.ndarray]:
    random = np.random.default_rng(3)  # the larger share holds what the smaller has
    return [random.random(weight.shape) >= share for weight in state.pruned]


def test_pruned_numbers_have_no_gradient() -> None:
    """The rest is updated as if the others were constants, also when it is clipped."""
    batch, results = random_batch(OBJECTIVES["causal"], 4), []
    config = training(clip_norm=1e-2)
    for is_pruned in (False, True):
        state = pruned_state(config, keras.optimizers.SGD(1.0))
        masks = draw_masks(state, 0.5)
        for weight, mask in zip(state.pruned, masks, strict=True):
            weight.assign(ops.convert_to_numpy(weight.value) * mask)
        if is_pruned:
            state.set_masks(masks)
        before = values(state.model.trainable_variables)
        update = build_step(state, Loss(make_targets(OBJECTIVES["causal"])), config)
        norm = float(update(batch)["gradient_norm"])
        after = values(state.model.trainable_variables)
        # What was clipped to a norm of 1e-2 is scaled back.
        results.append(
            [(b - a) * norm / 1e-2 for a, b in zip(after, before, strict=True)]
        )
    dense, pruned = results
    index = {id(w): n for n, w in enumerate(state.model.trainable_variables)}
    for weight, mask in zip(state.pruned, masks, strict=True):
        assert np.abs(dense[index[id(weight)]][~mask]).max() > 0
        dense[index[id(weight)]] *= mask
    for a, b in zip(dense, pruned, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
    assert norm == pytest.approx(np.sqrt(sum((g**2).sum() for g in dense)), rel=1e-3)


def test_pruned_numbers_stay_zero_also_with_momentum_and_averages() -> None:
    config = training(ema_decay=0.5)
    state = pruned_state(config, keras.optimizers.Adam(0.1))
    update = build_step(state, Loss(make_targets(OBJECTIVES["causal"])), config)
    weights = state.model.trainable_variables
    averages = {id(w): a for w, a in zip(weights, state.averages, strict=True)}
    for seed, share in enumerate((0.0, 0.3, 0.8)):  # also after it is compiled
        masks = draw_masks(state, share)
        state.set_masks(masks)
        before = values(state.pruned)
        update(random_batch(OBJECTIVES["causal"], 4, seed))
        for weight, mask, old in zip(state.pruned, masks, before, strict=True):
            for of in (weight, averages[id(weight)]):
                (found,) = values([of])
                # No -0.0, which is not zero to a compressed file.
                assert not found[~mask].view("uint32").any(), weight.path
            (new,) = values([weight])
            assert np.median(np.abs(new - old)[mask]) > 1e-2
