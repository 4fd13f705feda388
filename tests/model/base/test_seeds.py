"""One seed, many parts."""

import itertools

from transbeam.model.base.initializers import derive_seed


def test_seeds_of_parts_differ():
    names = [
        (f"encoder_layer_{i}", part)
        for i, part in itertools.product(range(24), ("query", "key", "value"))
    ]
    seeds = {derive_seed(0, *name) for name in names}
    assert len(seeds) == len(names)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_seed_of_the_whole_counts():
    assert derive_seed(1, "query") != derive_seed(2, "query")


def test_no_seed_stays_no_seed():
    assert derive_seed(None, "query") is None
