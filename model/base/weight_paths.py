"""The paths of a model's weights: which fit a pattern, and which are a head's.

A path is such as `encoder_layer_0/self_attention/query/kernel`. Nothing of Keras is
needed to tell.
"""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from transbeam.configs.base.errors import ConfigError

# What stands on a body, and is made anew where a model has another.
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


# Of these, what gives the scores of classes.
_SCORES = ("classifier", "pair_classifier", "token_classifier")


def matching(paths: Iterable[str], patterns: Sequence[str], what: str) -> list[str]:
    """The paths that fit any of some patterns.

    Args:
        paths: Such as `encoder_layer_0/self_attention/query/kernel`.
        patterns: As for files: `*` stands for any characters, `/` among them, `?` for
            one, `[01]` for one of these.
        what: What the paths are of, for the error.

    Returns:
        Those that fit, in their order.

    Raises:
        ConfigError: A pattern fits nothing. It names the paths most like it.

    Example:
    >>> matching(["layer_0/kernel", "layer_1/kernel"], ["*_1/*"], "weight")
    ['layer_1/kernel']
    >>> matching(["layer_0/kernel"], ["layer_0/kernle"], "weight")
    Traceback (most recent call last):
    ConfigError: 'layer_0/kernle' fits the path of no weight. ...
    """
    paths = list(paths)
    if isinstance(patterns, str):  # which would be taken letter by letter
        patterns = [patterns]
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.0)
            hint = f"Most like it: {', '.join(near)}" if near else "There are none"
            raise ConfigError(f"{pattern!r} fits the path of no {what}. {hint}")
    return [p for p in paths if any(fnmatchcase(p, pattern) for pattern in patterns)]


def is_head(path: str) -> bool:
    """Checks that a weight belongs to a head or a pooler, and not to the body.

    Example:
    >>> is_head("head_dense/kernel"), is_head("encoder_layer_0/feedforward/gate/kernel")
    (True, False)
    """
    return path.partition("/")[0] in _HEADS


def gives_scores(path: str) -> bool:
    """Checks that a weight belongs to the layer that computes class logits.

    Example:
    >>> gives_scores("token_classifier/bias"), gives_scores("pooler/kernel")
    (True, False)
    """
    return path.partition("/")[0] in _SCORES
