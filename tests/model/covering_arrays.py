"""Covering arrays: in few cases each value of a parameter meets each of the others."""

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import pytest


def in_pairs(**axes: Collection[Any]) -> pytest.MarkDecorator:
    """Parametrises a test by the product of some values, most of it thorough.

    In the cases that are quick each pair of values of two parameters meets.

    Args:
        axes: Values by the parameter's name; a mapping names them.
    """
    choices = [list(axis) for axis in axes.values()]
    cases = list(itertools.product(*(range(len(choice)) for choice in choices)))
    quick = covering(cases)
    found = []
    for case in cases:
        values, names = [], []
        for axis, choice, number in zip(axes.values(), choices, case, strict=True):
            value = choice[number]
            values.append(axis[value] if isinstance(axis, Mapping) else value)
            names.append(str(value))
        marks = () if case in quick else pytest.mark.thorough
        found.append(pytest.param(*values, marks=marks, id="-".join(names)))
    return pytest.mark.parametrize(list(axes), found)


def covering(cases: list[tuple], together: int = 2) -> list[tuple]:
    """Few of the cases, in which as many values at a time meet as in all of them."""
    groups = [set(itertools.combinations(enumerate(case), together)) for case in cases]
    left, chosen = set().union(*groups), []
    while left:  # the one in which most meet that have not met yet
        best = max(range(len(cases)), key=lambda number: len(groups[number] & left))
        left -= groups[best]
        chosen.append(cases[best])
    return chosen
