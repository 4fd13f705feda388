"""FLOPs (floating-point operations) of a forward and of a backward pass."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

Part = Literal[
    "projections", "attention", "feedforward", "logits", "head", "elementwise"
]
PARTS: tuple[Part, ...] = get_args(Part)


@dataclass(frozen=True)
class Work:
    """FLOPs of the forward and the backward pass, by part of the model.

    The parts are `projections` (queries, keys, values and outputs of attention),
    `attention` (scores and means of values, which grow with the length), `feedforward`,
    `logits` (of the vocabulary), `head` (all other dense layers: of the objective, the
    pooler, patches and narrow embeddings) and `elementwise` (everything except matrix
    products).

    Example:
    >>> layer = products("feedforward", 50) + elementwise(1, (5, 7))
    >>> both = 2 * layer + products("logits", 25)
    >>> both.forward.total(), both.backward.total()
    (260, 514)
    """

    forward: Counter[str] = field(default_factory=Counter[str])
    backward: Counter[str] = field(default_factory=Counter[str])

    def __add__(self, other: "Work") -> "Work":
        return Work(self.forward + other.forward, self.backward + other.backward)

    def __rmul__(self, times: int) -> "Work":
        return Work(_multiplied(times, self.forward), _multiplied(times, self.backward))


def _multiplied(times: int, parts: Counter[str]) -> Counter[str]:
    return Counter({name: times * count for name, count in parts.items()})


def products(part: Part, multiply_adds: int, *, gradients: int = 2) -> Work:
    """FLOPs of matrix products: two per multiply-add.

    Args:
        part: The part of the model to which the products belong.
        multiply_adds: Multiply-adds of the forward pass.
        gradients: The number of factors that need a gradient: each adds a product of
            the same size to the backward pass.

    Example:
    >>> products("logits", 10).backward["logits"]
    40
    """
    flops = 2 * multiply_adds
    return Work(Counter({part: flops}), Counter({part: gradients * flops}))


def elementwise(elements: int, each: tuple[int, int]) -> Work:
    """FLOPs of elementwise operations.

    Args:
        elements: Number of elements.
        each: FLOPs per element, forward and backward.

    Example:
    >>> elementwise(10, (1, 2)).backward["elementwise"]
    20
    """
    forward, backward = each
    return Work(
        Counter(elementwise=elements * forward),
        Counter(elementwise=elements * backward),
    )
