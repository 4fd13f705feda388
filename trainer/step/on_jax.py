"""The update as a pure function that JAX compiles."""

import functools
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from transbeam.trainer.distribution.on_jax import MeshWorkers
from transbeam.trainer.distribution.workers import Workers
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.step.batch import (
    Batch,
    Numbers,
    by_record,
    in_parts,
    model_inputs,
    outputs_to_learn_from,
    tokens_in,
)
from transbeam.trainer.step.state import UpdateRule

# Variables that wait elsewhere for a value must not get it in a trace.
_stateless = functools.partial(keras.StatelessScope, initialize_variables=False)


def build(rules: UpdateRule, loss: Loss, accumulation: int, workers: Workers):
    """See `transbeam.trainer.step.build.build_step`."""
    state = rules.state
    model = state.model
    trained = model.trainable_variables
    others = model.non_trainable_variables
    # An update leaves the masks as they are, but must not take them for constants.
    kept = [*state.masks, *state.counters]
    changed = [*state.optimizer.variables, *state.averages, *kept]
    groups = (trained, others, changed)
    mesh = workers if isinstance(workers, MeshWorkers) else None

    # Logits of rows on several devices are not computed in chunks.
    outputs_of = outputs_to_learn_from(model, loss, whole=mesh is not None)

    loss_of = loss
    if mesh and loss.compares_records:
        loss_of = _loss_by_replica(loss, mesh.replicas)

    def share(values, other_values, batch, counts, scale):
        batch = loss.prepare(batch)
        pairs = list(zip([*trained, *others], [*values, *other_values], strict=True))
        with _stateless(pairs) as scope:
            value, sums = loss_of(outputs_of(batch), batch, counts)
        others_after = [
            _current(scope, variable, old)
            for variable, old in zip(others, other_values, strict=True)
        ]
        return value * scale, (value, sums, others_after)

    cut = mesh.in_parts if mesh else in_parts
    share_and_gradients = jax.grad(share, has_aux=True)

    def of_all_parts(values, other_values, batch, counts, scale):
        def add(carry, part):
            so_far, other_values = carry
            gradients, (value, sums, other_values) = share_and_gradients(
                values, other_values, part, counts, scale
            )
            so_far = jax.tree.map(jnp.add, so_far, gradients)
            return (so_far, other_values), (value, sums)

        nothing = [jnp.zeros_like(value) for value in values]
        (gradients, other_values), parts = jax.lax.scan(
            add, (nothing, other_values), cut(batch, accumulation)
        )
        value, sums = jax.tree.map(lambda x: jnp.sum(x, axis=0), parts)
        return gradients, (value, sums, other_values)

    def pure(values, other_values, rest, fixed, batch) -> tuple[Any, Numbers]:
        pairs = list(zip([*trained, *changed], [*values, *rest], strict=True))
        with _stateless(pairs):
            scale = state.loss_scale.value
        counts = loss.counts(batch)
        work = of_all_parts if accumulation > 1 else share_and_gradients
        with _stateless(list(zip(loss.variables, fixed, strict=True))):
            gradients, (value, sums, other_values) = work(
                values, other_values, batch, counts, scale
            )

        def new_values(change, *arguments):
            with _stateless(pairs) as scope:
                change(*arguments)
            return [_current(scope, variable, old) for variable, old in pairs]

        with _stateless(pairs):
            gradients, norms, is_finite = rules.finish(gradients)
        is_finite = is_finite & jnp.isfinite(value)
        new = jax.lax.cond(
            is_finite,
            lambda: new_values(rules.apply, gradients),
            lambda: new_values(rules.skip),
        )
        numbers = {
            "loss": value,
            **norms,
            "skipped": 1 - is_finite.astype("int32"),
            "tokens": tokens_in(batch),
            "sums": sums,
        }
        return (new[: len(trained)], other_values, new[len(trained) :]), numbers

    # On a mesh, variables keep their shardings.
    shardings = [[v.value.sharding for v in group] for group in groups]
    out = (tuple(shardings), mesh.whole) if mesh else None
    compiled = jax.jit(pure, donate_argnums=(0, 1, 2), out_shardings=out)
    arrays = mesh.shared if mesh else _arrays

    def update(batch: Batch) -> Numbers:
        before = [[variable.value for variable in group] for group in groups]
        fixed = [variable.value for variable in loss.variables]
        after, numbers = compiled(*before, fixed, arrays(batch))
        for group, values in zip(groups, after, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        return numbers

    return update


def build_forward(model: keras.Model, loss: Loss, workers: Workers):
    """See `transbeam.trainer.step.build.build_evaluation`."""
    mesh = workers if isinstance(workers, MeshWorkers) else None

    def outputs_of(values, other_values, batch) -> Batch:
        outputs, _ = model.stateless_call(
            values, other_values, model_inputs(model, batch), training=False
        )
        return outputs

    def pure(values, other_values, batch) -> Numbers:
        outputs = outputs_of(values, other_values, batch)
        if mesh and loss.compares_records:
            return dict(by_record(outputs, batch))
        return loss.answers(outputs, batch)

    compiled = jax.jit(pure, out_shardings=mesh.whole if mesh else None)
    compare = jax.jit(loss.answers)

    def forward(batch: Batch) -> Numbers:
        variables = (model.trainable_variables, model.non_trainable_variables)
        values = [[variable.value for variable in group] for group in variables]
        if mesh is None:
            return compiled(*values, _arrays(batch))
        rows = len(next(iter(batch.values())))
        found = compiled(*values, mesh.shared_by_all(batch))
        # Without the rows that were repeated to divide the batch equally.
        found = jax.tree.map(lambda x: np.asarray(x)[:rows], found)
        return compare(found, batch) if loss.compares_records else found

    return forward


def _loss_by_replica(loss: Loss, replicas: int):
    """Builds the loss that compares records of the same replica only."""

    def cut(x):
        return jnp.reshape(x, (replicas, -1, *x.shape[1:]))

    def loss_of(outputs: Batch, batch: Batch, counts: list[Any]) -> tuple[Any, Any]:
        parts = jax.vmap(lambda x, rows: loss(x, rows, counts))(
            jax.tree.map(cut, dict(outputs)), jax.tree.map(cut, dict(batch))
        )
        return jax.tree.map(lambda x: jnp.sum(x, axis=0), parts)

    return loss_of


def _arrays(batch: Batch) -> Batch:
    return {name: jnp.asarray(x) for name, x in batch.items()}


def _current(scope, variable, old):
    new = scope.get_current_value(variable)
    return old if new is None else new
