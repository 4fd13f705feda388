"""The computed activation memory is that of TensorFlow's graph.

A tensor is kept if an operation of the backward pass reads it. Those of one more layer
are compared, so that neither tables of weights nor a loss come in.
"""

from dataclasses import replace

import pytest
import tensorflow as tf

from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.cost.graphs import GRAPHS, VOCABULARY_SIZE, Graph
from transbeam.model.build import build_model
from transbeam.model.cost.memory import kept_activations
from transbeam.model.cost.stacks import Lengths

pytestmark = tensorflow_only
BATCH = 3
# No product of batch and length is a width, which tells weights from activations.
TEXT = Lengths(tokens=96)
PAIR = Lengths(tokens=96, decoder_tokens=40)
# They look at their input's shape, or are another view of the same numbers.
SHAPES = {"Shape", "ShapeN", "Size", "Rank", "ZerosLike"}
VIEWS = {"Reshape", "Identity", "ExpandDims", "Squeeze"}


def kept_bytes(graph: Graph, num_layers: int) -> float:
    """Bytes for one sequence."""
    config = replace(graph.config, num_layers=num_layers)
    model = build_model(config, graph.objective, VOCABULARY_SIZE)
    found: dict[str, tf.Tensor] = {}

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
        forward = {op.name for op in tf.compat.v1.get_default_graph().get_operations()}
        gradients = tape.gradient(outputs, model.trainable_weights)
        found.update(_read_by(gradients, forward))

    step.get_concrete_function(
        {tensor.name: _spec(tensor, graph.lengths) for tensor in model.inputs}
    )
    weights = {tuple(weight.shape) for weight in model.trainable_weights}
    sizes = [
        tensor.shape.num_elements() * tensor.dtype.size
        for tensor in found.values()
        if tensor.dtype != tf.resource and tuple(tensor.shape) not in weights
    ]
    return sum(sizes) / BATCH


def _read_by(gradients, forward: set[str]) -> dict[str, tf.Tensor]:
    """Tensors of the forward pass that the backward pass reads."""
    dense = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    ahead, seen = [tensor.op for tensor in dense], set()
    found = {}
    while ahead:
        op = ahead.pop()
        if op.name in seen or op.type in SHAPES:
            continue
        seen.add(op.name)
        for tensor in op.inputs:
            if tensor.op.name not in forward:
                ahead.append(tensor.op)
                continue
            while tensor.op.type in VIEWS:
                tensor = tensor.op.inputs[0]
            found[tensor.name] = tensor
    return found


def _spec(tensor, lengths: Lengths) -> tf.TensorSpec:
    is_decoder = tensor.name.startswith("decoder_")
    length = lengths.decoder_tokens if is_decoder else lengths.tokens
    if tensor.name == "masked_positions":
        length = 15
    return tf.TensorSpec((BATCH, length), tensor.dtype)


KEPT = ["alibi", "rezero", "gpt2", "llama", "t5"]


@pytest.mark.parametrize("name", others_thorough(KEPT, ["llama", "t5"]))
def test_a_layer_keeps_what_tensorflow_keeps(name):
    graph = GRAPHS[name]._replace(lengths=PAIR if name == "t5" else TEXT)

    def counted(num_layers):
        config = replace(graph.config, num_layers=num_layers)
        parts = kept_activations(config, graph.objective, graph.lengths)
        return sum(parts.values())

    one_more = kept_bytes(graph, 2) - kept_bytes(graph, 1)
    # Beside it: a norm's deviations and the sines of rotary positions.
    assert counted(2) - counted(1) == pytest.approx(one_more, rel=0.02)
