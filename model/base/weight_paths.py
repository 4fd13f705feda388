"""Paths of a model's weights: pattern matching, parts of a model, heads.

An example of a path is `encoder_layer_0/self_attention/query/kernel`. This module does
not need Keras.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from transbeam.configs.base.errors import ConfigError

# Layers of heads, which are newly initialized if a body gets another head.
_HEADS = (
    "head_dense",
    "head_norm",
    "head_bias",
    "pooling",
    "pooler",
    "classifier",
    "pair_classifier",
    "token_classifier",
    "span_classifier",
    "regressor",
)

# Biases of attention scores by distance are matrices, too: a row for each distance.
_SMALL = re.compile(r"bias|norm")

# Those of them that compute class logits.
_SCORES = ("classifier", "pair_classifier", "token_classifier")


def matching(paths: Iterable[str], patterns: Sequence[str], what: str) -> list[str]:
    """Selects the paths that match any of some patterns.

    Args:
        paths: Paths such as `encoder_layer_0/self_attention/query/kernel`.
        patterns: Glob patterns: `*` matches any characters, also `/`; `?` matches one
            character, and `[01]` matches `0` or `1`.
        what: The kind of object that the paths name, such as `"weight"`, for the error
            message.

    Returns:
        The paths that match, in their original order.

    Raises:
        ConfigError: A pattern matches no path. The error lists the most similar paths.

    Example:
    >>> matching(["layer_0/kernel", "layer_1/kernel"], ["*_1/*"], "weight")
    ['layer_1/kernel']
    >>> matching(["layer_0/kernel"], ["layer_0/kernle"], "weight")
    Traceback (most recent call last):
    ConfigError: 'layer_0/kernle' fits the path of no weight. ...
    """
    paths = list(paths)
    if isinstance(patterns, str):  # would be iterated by characters
        patterns = [patterns]
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.0)
            hint = f"Most like it: {', '.join(near)}" if near else "There are none"
            raise ConfigError(f"{pattern!r} fits the path of no {what}. {hint}")
    return [p for p in paths if any(fnmatchcase(p, pattern) for pattern in patterns)]


def select_prunable(
    shapes: Mapping[str, tuple[int, ...]], patterns: Sequence[str]
) -> list[str]:
    """Selects the matrices whose single weights may be pruned.

    Biases, norms and biases of attention scores are left out, even if a pattern matches
    them: they are a small part of a model, and it depends on each of their numbers.

    Args:
        shapes: Shapes of a model's weights, by path.
        patterns: Glob patterns, as in `matching`.

    Raises:
        ConfigError: A pattern matches no weight, or there is no matrix among those that
            the patterns match.

    Example:
    >>> shapes = {"pooler/kernel": (8, 8), "pooler/bias": (8,), "norm/gamma": (8,)}
    >>> select_prunable(shapes, ["pooler/*"])
    ['pooler/kernel']
    """
    chosen = [
        path
        for path in matching(shapes, patterns, "weight")
        if len(shapes[path]) > 1 and not _SMALL.search(path)
    ]
    if not chosen:
        raise ConfigError(
            f"{', '.join(patterns)}: matches only biases and norms, which are not "
            "pruned. Matrices are */kernel and token_embedding/embeddings"
        )
    return chosen


def is_head(path: str) -> bool:
    """Checks if a weight belongs to a head or a pooler rather than to the backbone.

    Example:
    >>> is_head("head_dense/kernel"), is_head("encoder_layer_0/feedforward/gate/kernel")
    (True, False)
    """
    return path.partition("/")[0] in _HEADS


# The layers after the blocks that are no heads.
_AFTER_BLOCKS = ("final_norm", "logits", "logits_projection")


def part_name(path: str) -> str:
    """Names the part of a model that a weight belongs to.

    Returns:
        The name of a block; `head` for all that follows the blocks, final norms among
        it; otherwise `embeddings`.

    Example:
    >>> part_name("decoder_layer_3/feedforward/gate/kernel")
    'decoder_layer_3'
    >>> part_name("encoder_position_embedding/embeddings"), part_name("logits/kernel")
    ('embeddings', 'head')
    """
    layer = path.partition("/")[0]
    if re.fullmatch(r"(encoder|decoder)_layer_\d+", layer):
        return layer
    return "head" if is_head(path) or layer.endswith(_AFTER_BLOCKS) else "embeddings"


def group_by_part(paths: Iterable[str]) -> dict[str, list[int]]:
    """Groups weights by the part of the model that they belong to.

    Args:
        paths: The weights' paths.

    Returns:
        The places of the paths of each part: embeddings, blocks in their order, head.

    Example:
    >>> paths = ["token_embedding/embeddings", "head_bias/bias", "encoder_layer_0/a/b"]
    >>> group_by_part([*paths, "encoder_layer_0/a/c"])
    {'embeddings': [0], 'encoder_layer_0': [2, 3], 'head': [1]}
    """
    found: dict[str, list[int]] = {}
    for place, path in enumerate(paths):
        found.setdefault(part_name(path), []).append(place)
    blocks = [name for name in found if name not in ("embeddings", "head")]
    order = ("embeddings", *blocks, "head")
    return {name: found[name] for name in order if name in found}


def gives_scores(path: str) -> bool:
    """Checks if a weight belongs to a layer that computes class logits.

    Example:
    >>> gives_scores("token_classifier/bias"), gives_scores("pooler/kernel")
    (True, False)
    """
    return path.partition("/")[0] in _SCORES
