"""Model size and tokens that a budget of training FLOPs buys, by published fits.

A training of a model of N weights on D tokens takes about C = 6 N D FLOPs (Kaplan et
al., 2020). Hoffmann et al. (2022) estimated in three ways which N and D give the lowest
loss for a given C. Besiroglu et al. (2024) repeated the third estimate, found its
optimizer stopped early, and obtained one that agrees with the first two.

All are fits to causal decoders on English text, trained on each token about once, with
budgets from 6e18 to 3e21 FLOPs.

References:
    - [Hoffmann et al., 2022](https://arxiv.org/abs/2203.15556), tables 3 and A3,
      equation 4; the parameters of the third approach without rounding, as in its
      source
    - [Besiroglu et al., 2024](https://arxiv.org/abs/2404.10102), table 1
    - [Kaplan et al., 2020](https://arxiv.org/abs/2001.08361), section 2.1
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, lcm, log
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.block import NoFeedForwardConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.scaled_configs import scale

FLOPS_PER_WEIGHT_AND_TOKEN = 6
# Budgets of the trainings that were fitted.
FITTED = (6e18, 3e21)
# Optimal weights by FLOPs: table 3 (approach 1) and table A3 (approach 2).
_APPROACH_1 = (
    (1.92e19, 400e6),
    (1.21e20, 1e9),
    (1.23e22, 10e9),
    (5.76e23, 67e9),
    (3.85e24, 175e9),
    (9.90e24, 280e9),
    (3.43e25, 520e9),
    (1.27e26, 1e12),
    (1.30e28, 10e12),
)
_APPROACH_2 = (
    (1.84e19, 400e6),
    (1.20e20, 1e9),
    (1.32e22, 10e9),
    (6.88e23, 67e9),
    (4.54e24, 175e9),
    (1.18e25, 280e9),
    (4.19e25, 520e9),
    (1.59e26, 1e12),
    (1.75e28, 10e12),
)
# Exponents of the number of weights, by which the tables are continued.
_EXPONENT_1, _EXPONENT_2 = 0.50, 0.49
_SECONDS = {"min": 60.0, "h": 3_600.0, "d": 86_400.0}
_MOST_LAYERS = 1_024


@dataclass(frozen=True)
class ParametricFit:
    """A fit of the loss, `E + A / N^alpha + B / D^beta`, without its constant E."""

    a: float
    b: float
    alpha: float
    beta: float

    def optimal_weights(self, flops: float) -> float:
        """The number of weights with the lowest loss for a budget.

        Example:
        >>> f"{BESIROGLU.optimal_weights(5.76e23):.3g}"
        '7.22e+10'
        """
        exponent = self.beta / (self.alpha + self.beta)
        scale = (self.alpha * self.a / (self.beta * self.b)) ** (
            1 / (self.alpha + self.beta)
        )
        return scale * (flops / FLOPS_PER_WEIGHT_AND_TOKEN) ** exponent


HOFFMANN = ParametricFit(a=406.4, b=410.7, alpha=0.3392, beta=0.2849)
BESIROGLU = ParametricFit(a=482.01, b=2085.43, alpha=0.3478, beta=0.3658)


@dataclass(frozen=True)
class Allocation:
    """Model size and tokens for a budget.

    Attributes:
        source: The fit.
        weights: Number of weights N, with embeddings.
        tokens: Number of tokens D.
    """

    source: str
    weights: float
    tokens: float


def parse_budget(text: str) -> tuple[str, float]:
    """Reads a budget: FLOPs, or a time.

    Returns:
        `flops` and their number, or `seconds` and theirs.

    Raises:
        ConfigError: It is neither.

    Example:
    >>> parse_budget("6e18"), parse_budget("90min"), parse_budget("1.5d")
    (('flops', 6e+18), ('seconds', 5400.0), ('seconds', 129600.0))
    """
    match = re.fullmatch(
        r"([0-9.]+)(?:(e\+?[0-9]+)|\s*(min|h|d))?", text.strip().lower()
    )
    try:
        number = float(match[1] + (match[2] or "")) if match else 0.0
    except ValueError:
        number = 0.0
    if not match or not 0 < number < inf:
        raise ConfigError(
            f"--budget {text}: expected FLOPs, such as 6e18 or 1e21, or a time, such "
            "as 90min, 12h or 3d"
        )
    if match[3]:
        return "seconds", number * _SECONDS[match[3]]
    if number < 1e6:
        raise ConfigError(
            f"--budget {text}: so few FLOPs are less than a step of any model. Give "
            "FLOPs, such as 6e18, or a time with its unit, such as 12h"
        )
    return "flops", number


def optimal_allocations(flops: float) -> list[Allocation]:
    """Computes the optimal model size for a budget by each published fit.

    Args:
        flops: The budget C.

    Example:
    >>> [f"{x.weights:.3g} {x.tokens:.3g}" for x in optimal_allocations(1.92e19)]
    ['4e+08 8e+09', '4.08e+08 7.84e+09', '3.64e+08 8.78e+09', '3.66e+08 8.74e+09']
    """
    weights = {
        "Hoffmann et al., 2022, approach 1": _interpolate(
            _APPROACH_1, _EXPONENT_1, flops
        ),
        "Hoffmann et al., 2022, approach 2": _interpolate(
            _APPROACH_2, _EXPONENT_2, flops
        ),
        "Hoffmann et al., 2022, approach 3": HOFFMANN.optimal_weights(flops),
        "Besiroglu et al., 2024": BESIROGLU.optimal_weights(flops),
    }
    each = flops / FLOPS_PER_WEIGHT_AND_TOKEN
    return [Allocation(source, n, each / n) for source, n in weights.items()]


def _interpolate(
    rows: Sequence[tuple[float, float]], exponent: float, flops: float
) -> float:
    """Interpolates a table on logarithmic scales; outside of it follows a power law."""
    for (below, least), (above, most) in pairwise(rows):
        if below <= flops <= above:
            share = log(flops / below) / log(above / below)
            return exp(log(least) + share * log(most / least))
    end, weights = rows[0] if flops < rows[0][0] else rows[-1]
    return weights * (flops / end) ** exponent


def plan_budget(
    run: RunConfig,
    flops: float,
    vocabulary_size: int,
    flops_per_second: float | None = None,
) -> dict[str, Any]:
    """Works out what a budget buys: by the published fits, and for a run's model.

    Args:
        run: The run.
        flops: The budget.
        vocabulary_size: The vocabulary size of its tokenizer.
        flops_per_second: The speed of a training of this run, to tell times; None if
            unknown.

    Returns:
        `flops`; `fits`, a list of `source`, `weights`, `tokens`; `is_extrapolated`;
        `own` and `nearest`, the run's model and the one of its family whose size is
        nearest to the last fit, see `describe_model`; `seconds` or None.

    Raises:
        ConfigError: The model reads images.
    """
    if not vocabulary_size:
        raise ConfigError(
            "--budget: the fits count tokens of text, and the model reads images "
            "(model.patches)"
        )
    fits = optimal_allocations(flops)
    nearest = nearest_in_family(run, fits[-1].weights, vocabulary_size)
    return {
        "flops": flops,
        "fits": [vars(fit) for fit in fits],
        "is_extrapolated": not FITTED[0] <= flops <= FITTED[1],
        "own": describe_model(run, flops, vocabulary_size),
        "nearest": describe_model(nearest, flops, vocabulary_size),
        "flops_per_second": flops_per_second,
        "seconds": flops / flops_per_second if flops_per_second else None,
    }


def describe_model(
    run: RunConfig, flops: float, vocabulary_size: int
) -> dict[str, Any]:
    """Counts the tokens and updates that a budget buys for a run's model.

    Returns:
        `num_layers`, `hidden_dim`, `num_heads`, `intermediate_dim` (None without a
        feed-forward); `weights`, with the head; `flops_per_token`, of forward and
        backward pass at the run's length, as `model/cost` counts them; `tokens`,
        `tokens_per_weight`, and `steps`, updates of the run's batch size.
    """
    cost = count_cost(run, vocabulary_size=vocabulary_size)
    work, lengths = cost["flops"]["per_token"], cost["length"]
    each = work["forward"]["total"] + work["backward"]["total"]
    weights = cost["parameters"]["total_with_heads"]
    tokens = flops / each
    record = lengths["tokens"] + lengths["decoder_tokens"]
    model = run.model
    feedforward = model.feedforward
    no_units = isinstance(feedforward, NoFeedForwardConfig)
    return {
        "num_layers": model.num_layers,
        "hidden_dim": model.hidden_dim,
        "num_heads": model.attention.num_heads,
        "intermediate_dim": None if no_units else feedforward.intermediate_dim,
        "weights": weights,
        "flops_per_token": each,
        "tokens": tokens,
        "tokens_per_weight": tokens / weights,
        "steps": tokens / (record * cost["batch_size"]),
    }


def nearest_in_family(
    run: RunConfig, weights: float, vocabulary_size: int
) -> RunConfig:
    """Finds the model of a run's shape whose number of weights is nearest to a target.

    The family has the run's ratio of width to depth, its width of a head and its ratio
    of the feed-forward to the width.

    Args:
        run: The run.
        weights: The target.
        vocabulary_size: The vocabulary size of its tokenizer.
    """
    step = _width_step(run)
    ratio = run.model.hidden_dim / run.model.num_layers

    def member(layers: int) -> RunConfig:
        width = max(round(ratio * layers / step), 1) * step
        return scale(scale(run, "depth", layers), "width", width)

    def size(layers: int) -> int:
        cost = count_cost(member(layers), vocabulary_size=vocabulary_size)
        return cost["parameters"]["total_with_heads"]

    low, high = 1, 2
    while high < _MOST_LAYERS and size(high) < weights:
        low, high = high, 2 * high
    while high - low > 1:  # the size grows with the depth
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < weights else (low, middle)
    best = min((low, high), key=lambda layers: abs(log(size(layers) / weights)))
    return member(best)


def _width_step(run: RunConfig) -> int:
    """The smallest change of width with whole heads, groups and intermediate units."""
    model, attention = run.model, run.model.attention
    group = attention.num_heads // attention.key_value_heads
    steps = [Fraction(model.hidden_dim * group, attention.num_heads).numerator]
    if not isinstance(model.feedforward, NoFeedForwardConfig):
        wide = model.feedforward.intermediate_dim
        steps.append(Fraction(model.hidden_dim, wide).numerator)
    return lcm(*steps)
