"""Pictures of a position encoding, from the values of its layers."""

from typing import assert_never

import numpy as np

from transbeam.configs.schema import block
from transbeam.model.inspect.position_values import (
    position_vectors,
    rotation_angles,
    score_biases,
    similarity_by_distance,
    without_stretch,
)
from transbeam.model.stack.stack_spec import StackSpec
from transbeam.trainer.explanation.picture import (
    CYCLIC,
    DIVERGING,
    SEQUENTIAL,
    Picture,
    draw_lines,
    draw_map,
    new_panels,
)

# More curves cannot be distinguished.
_MOST_HEADS = 8
_DISTANCE = "distance in tokens"


def draw_position(
    spec: StackSpec, length: int, table: np.ndarray | None = None
) -> Picture:
    """Draws the position encoding of a stack.

    Args:
        spec: The stack.
        length: Number of positions.
        table: The trained weight of learned positions, or of relative biases; None for
            a model that is not trained.
    """
    position = spec.config.position
    match position:
        case block.LearnedPositionConfig() | block.SinusoidalPositionConfig():
            return _draw_vectors(spec, length, table)
        case block.RelativeBiasPositionConfig() if table is None:
            return _draw_buckets(spec, length)
        case (
            block.RelativeBiasPositionConfig()
            | block.AlibiPositionConfig()
            | block.DirectedAlibiPositionConfig()
        ):
            return _draw_biases(spec, length, table)
        case block.RopePositionConfig():
            return _draw_rotations(spec, length)
        case block.NoPositionConfig():
            return Picture(
                "position_none",
                "position: none",
                "Nothing is added. A decoder still learns something of the order, from "
                "how many tokens its causal mask lets each of them see; an encoder "
                "reads its tokens as a bag of words.",
            )
        case unknown:
            assert_never(unknown)


def _draw_vectors(spec: StackSpec, length: int, table: np.ndarray | None) -> Picture:
    vectors = position_vectors(spec, length, table)
    similarity = similarity_by_distance(spec, length, table)
    assert vectors is not None
    assert similarity is not None
    figure, (left, right) = new_panels(2)
    most = float(np.abs(vectors).max())
    draw_map(
        left,
        vectors,
        DIVERGING,
        title="vector of each position",
        labels=("number in the vector", "position"),
        limits=(-most, most),
    )
    draw_lines(
        right,
        np.arange(length),
        [("", similarity)],
        title="similarity of two positions",
        labels=(_DISTANCE, "mean cosine"),
    )
    if spec.config.position.kind == "learned":
        state = (
            "These are the initial ones, drawn at random: no two positions are alike, "
            "and their order is learned."
            if table is None
            else "These are the trained ones."
        )
        note = (
            f"A vector for each position, added to that of the token. {state} There is "
            "none beyond max_sequence_length."
        )
    else:
        note = (
            "Fixed sines and cosines, added to the tokens' vectors. The first numbers "
            "of a vector change quickly from position to position, the last slowly. "
            "The similarity depends on the distance alone."
        )
    kind = spec.config.position.kind
    return Picture(f"position_{kind}", f"position: {kind}", note, figure)


def _draw_buckets(spec: StackSpec, length: int) -> Picture:
    found = score_biases(spec, length)
    assert found is not None
    (buckets,) = found
    figure, (left, right) = new_panels(2)
    draw_map(
        left,
        buckets,
        SEQUENTIAL,
        title="bucket of each pair",
        labels=("key", "query"),
    )
    distances, rows = _by_distance(buckets, causal=spec.causal)
    draw_lines(
        right,
        distances,
        [("", rows)],
        title="bucket by distance",
        labels=("key's position less the query's", "bucket"),
    )
    note = (
        "A learned number for each head and bucket of distances, added to the score of "
        "a pair of tokens (T5). Near distances have a bucket each, far ones share "
        "buckets that grow with the logarithm. All blocks of the stack share the table."
    )
    return Picture("position_relative_bias", "position: relative_bias", note, figure)


def _draw_biases(
    spec: StackSpec, length: int, bias_table: np.ndarray | None = None
) -> Picture:
    biases = score_biases(spec, length, bias_table)
    assert biases is not None
    figure, (left, right) = new_panels(2)
    most = float(np.abs(biases[0]).max())
    draw_map(
        left,
        biases[0],
        DIVERGING,
        title="bias of each pair, head 0",
        labels=("key", "query"),
        limits=(-most, most),
    )
    heads = np.unique(np.linspace(0, len(biases) - 1, _MOST_HEADS).round().astype(int))
    distances = np.arange(0)
    lines = []
    for head in heads:
        distances, values = _by_distance(biases[head], causal=spec.causal)
        lines.append((f"head {head}", values))
    draw_lines(
        right,
        distances,
        lines,
        title="bias by distance",
        labels=("key's position less the query's", "added to the score"),
    )
    kind = spec.config.position.kind
    if kind == "relative_bias":
        note = (
            "The learned biases of this model, added to the scores of pairs of tokens."
        )
    elif kind == "alibi":
        note = (
            "A penalty on the distance, with a slope for each head, added to the score "
            "of a pair of tokens. Heads with a steep slope read the nearest tokens, "
            "others far ones. Nothing is learned."
        )
    else:
        note = (
            "ALiBi for encoders: heads form pairs of one slope, of which one leans to "
            "the left and the other to the right."
        )
    return Picture(f"position_{kind}", f"position: {kind}", note, figure)


def _by_distance(values: np.ndarray, *, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values `(T, T)` of pairs, by the key's position less the query's."""
    length = len(values)
    first, last = values[-1], values[0]  # of the last query, and of the first
    if causal:
        return np.arange(1 - length, 1), first
    return np.arange(1 - length, length), np.concatenate([first, last[1:]])


def _draw_rotations(spec: StackSpec, length: int) -> Picture:
    angles = rotation_angles(spec, length)
    similarity = similarity_by_distance(spec, length)
    assert angles is not None
    assert similarity is not None
    position = spec.config.position
    assert isinstance(position, block.RopePositionConfig)
    figure, (left, right) = new_panels(2)
    draw_map(
        left,
        angles,
        CYCLIC,
        title="angle of each position",
        labels=("pair of numbers", "position"),
        limits=(-np.pi, np.pi),
    )
    stretch = position.stretch.kind
    lines = [(stretch if stretch != "none" else "", similarity)]
    if stretch != "none":
        plain = similarity_by_distance(without_stretch(spec), length)
        assert plain is not None
        lines.append(("without stretch", plain))
    draw_lines(
        right,
        np.arange(length),
        lines,
        title="product of two vectors of ones",
        labels=(_DISTANCE, "of that at distance 0"),
    )
    note = (
        "Queries and keys are rotated by angles that grow with the position, so that "
        "their product depends on the distance. The first pairs of numbers turn "
        "quickly, the last slowly."
    )
    if stretch != "none":
        note += f" The frequencies are scaled for longer texts (stretch: {stretch})."
    name = "position_rope" + ("" if stretch == "none" else f"_{stretch}")
    title = "position: rope" + ("" if stretch == "none" else f", stretch: {stretch}")
    return Picture(name, title, note, figure)
