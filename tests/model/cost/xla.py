"""Prints what XLA counts on some models: what stands in `xla.json` beside this file.

`KERAS_BACKEND=jax python -m tests.model.cost.xla > tests/model/cost/xla.json` writes it
anew, after a change of the models in `graphs.py` or of how they are built. Nothing is
run: the graph is lowered, and its operations are counted as they were written. After
XLA has fused them it computes some twice, and counts them twice.
"""

import json

import jax
import keras

from tests.model.cost.graphs import BATCH, GRAPHS, VOCABULARY_SIZE, Graph
from transbeam.model.build import build_model


def count(graph: Graph) -> dict[str, float]:
    """FLOPs of a forward pass, and of one with the gradients of all weights."""
    model = build_model(graph.config, graph.objective, VOCABULARY_SIZE)
    inputs = {tensor.name: _input(tensor, graph) for tensor in model.inputs}
    weights = [_shape(weight) for weight in model.trainable_variables]
    others = [_shape(weight) for weight in model.non_trainable_variables]

    def forward(weights, others, inputs):
        return model.stateless_call(weights, others, inputs, training=False)[0]

    def both(weights, others, inputs, gradients):
        outputs, back = jax.vjp(lambda w: forward(w, others, inputs), weights)
        return outputs, back(gradients)

    outputs = jax.eval_shape(forward, weights, others, inputs)
    lowered = {
        "forward": jax.jit(forward).lower(weights, others, inputs),
        "both": jax.jit(both).lower(weights, others, inputs, outputs),
    }
    return {name: low.cost_analysis()["flops"] for name, low in lowered.items()}


def _shape(weight: keras.Variable) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(weight.shape, weight.dtype)


def _input(tensor: keras.KerasTensor, graph: Graph) -> jax.ShapeDtypeStruct:
    lengths = graph.lengths
    shape = tensor.shape[1:]
    if tensor.name == "masked_positions":
        shape = (graph.objective.predictions_per_record(lengths.tokens),)
    elif tensor.name.startswith("decoder_"):
        shape = (lengths.decoder_tokens,)
    elif shape == (None,):
        shape = (lengths.tokens,)
    return jax.ShapeDtypeStruct((BATCH, *shape), tensor.dtype)


if __name__ == "__main__":
    print(json.dumps({name: count(graph) for name, graph in GRAPHS.items()}, indent=1))
