"""Work, in FLOPs: floating-point operations of a forward and of a backward pass."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

Part = Literal[
    "projections", "attention", "feedforward", "logits", "head", "elementwise"
]
PARTS: tuple[Part, ...] = get_args(Part)


def _nothing() -> Counter[str]:
    return Counter()


@dataclass(frozen=True)
class Work:
    """FLOPs by part, of both passes.

    The parts are `projections` (queries, keys, values and outputs of attention),
    `attention` (scores and means of values: what grows with the length), `feedforward`,
    `logits` (scores of the vocabulary's tokens), `head` (all other dense layers: an
    objective's, a pooler's, those of patches and of narrow tables) and `elementwise`
    (everything that is no product of matrices).

    Example:
    >>> layer = products("feedforward", 50) + elementwise(1, (5, 7))
    >>> both = 2 * layer + products("logits", 25)
    >>> both.forward.total(), both.backward.total()
    (260, 514)
    """

    forward: Counter[str] = field(default_factory=_nothing)
    backward: Counter[str] = field(default_factory=_nothing)

    def __add__(self, other: "Work") -> "Work":
        return Work(self.forward + other.forward, self.backward + other.backward)

    def __rmul__(self, times: int) -> "Work":
        return Work(_multiplied(times, self.forward), _multiplied(times, self.backward))


def _multiplied(times: int, parts: Counter[str]) -> Counter[str]:
    return Counter({name: times * count for name, count in parts.items()})


def products(part: Part, multiply_adds: int, *, gradients: int = 2) -> Work:
    """Products of matrices: two FLOPs for each multiply-add.

    Args:
        part: Where they belong.
        multiply_adds: Of the forward pass.
        gradients: How many of the two factors have a gradient: each is a product of the
            same size on the way back.

    Example:
    >>> products("logits", 10).backward["logits"]
    40
    """
    flops = 2 * multiply_adds
    return Work(Counter({part: flops}), Counter({part: gradients * flops}))


def elementwise(elements: int, each: tuple[int, int]) -> Work:
    """Work on each element alone.

    Args:
        elements: How many there are.
        each: FLOPs for one of them, forward and backward.

    Example:
    >>> elementwise(10, (1, 2)).backward["elementwise"]
    20
    """
    forward, backward = each
    return Work(
        Counter(elementwise=elements * forward),
        Counter(elementwise=elements * backward),
    )
