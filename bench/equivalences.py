"""Largest differences that the equivalence tests measure.

    python -m bench.equivalences
    KERAS_BACKEND=jax python -m bench.equivalences

Runs the tests of `PROMISES` and looks over the shoulder of NumPy's comparisons: told is
the largest difference of two numbers that a promise's tests have compared, and the
largest share of what they allow. Kills of whole trainings are in
`tests/e2e/test_training.py`, workers in `tests/e2e/test_workers.py`.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from bench.pairs import heading, row

STEP = "tests/trainer/step/test_step.py::"
# What is promised, and the tests that hold it.
PROMISES = {
    "accumulated = whole batch, ragged padding": STEP
    + "test_accumulated_is_the_whole_batch",
    "the same with a teacher": "tests/trainer/distillation/test_distillation_loss.py::"
    "test_accumulated_is_the_whole_batch",
    "clipped after accumulation": STEP + "test_clipped_after_it_is_added_up",
    "what stands in padding has no say, smoothing and z-loss on": STEP
    + "test_padding_has_no_say",
    "scores by and by = all scores at once": STEP
    + "test_scores_by_and_by_are_all_scores_at_once",
    "blocks computed again = kept, with dropout": STEP
    + "test_computed_again_is_what_was_kept",
    "any loss scale": STEP + "test_weights_like_float32_with_any_loss_scale",
    "a loss that is not finite changes nothing": STEP
    + "test_a_loss_that_is_not_finite_changes_nothing_and_is_counted",
    "averages by hand": STEP + "test_the_moving_average_by_hand",
    "optimizers restored = not stopped": "tests/trainer/optimizers/test_build.py::"
    "test_restored_it_goes_on_as_if_it_had_not_stopped",
    "input entered in the middle": "tests/trainer/input/test_batches.py::"
    "test_entering_in_the_middle",
    "the same, of several lengths": "tests/trainer/input/test_several_streams.py::"
    "test_entering_in_the_middle",
    "masks in the graph = NumPy's": "tests/trainer/input/test_dynamic_masking.py::"
    "test_the_graph_hides_what_numpy_hides",
    "masks after a stop": "tests/trainer/input/test_dynamic_masking.py::"
    "test_a_training_that_stopped_goes_on_with_the_same_masks",
    "packed = alone, with gradients": "tests/model/test_packing_does_not_leak.py::"
    "test_packed_is_alone",
    "adapters merged = beside": "tests/trainer/base/test_adaptation.py::"
    "test_merged_answers_as_adapted_with_the_averages_in_place",
}


@dataclass
class Seen:
    """The comparisons of one promise."""

    passed: int = 0
    failed: int = 0
    arrays: int = 0
    difference: float = 0.0
    share: float = 0.0

    def add(self, found: Any, expected: Any, rtol: float, atol: float) -> None:
        """One comparison, of numbers."""
        found, expected = np.asarray(found), np.asarray(expected)
        if found.size == 0 or found.dtype.kind not in "fiub":
            return
        found, expected = found.astype("float64"), expected.astype("float64")
        off = np.abs(found - expected)
        self.arrays += 1
        self.difference = max(self.difference, float(off.max()))
        allowed = atol + rtol * np.abs(expected)
        shares = np.divide(off, allowed, out=np.zeros_like(off), where=off > 0)
        self.share = max(self.share, float(shares.max()))


@dataclass(eq=False)  # for pytest keeps plugins in sets
class Watching:
    """A plugin of pytest's that takes down what is compared."""

    seen: dict[str, Seen] = field(default_factory=lambda: defaultdict(Seen))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        seen = self.seen[test_of(item.nodeid)]
        close, equal = np.testing.assert_allclose, np.testing.assert_array_equal

        def watched_close(a: Any, b: Any, rtol=1e-7, atol=0.0, **keys: Any) -> None:
            seen.add(a, b, rtol, atol)
            close(a, b, rtol=rtol, atol=atol, **keys)

        def watched_equal(a: Any, b: Any, *arguments: Any, **keys: Any) -> None:
            seen.add(a, b, 0.0, 0.0)
            equal(a, b, *arguments, **keys)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(np.testing, "assert_allclose", watched_close)
            patched.setattr(np.testing, "assert_array_equal", watched_equal)
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and not report.skipped:
            seen = self.seen[test_of(report.nodeid)]
            seen.passed += report.passed
            seen.failed += report.failed


def main() -> None:
    """Prints a table."""
    watching = Watching()
    options = ["-q", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    code = pytest.main([*options, *PROMISES.values()], plugins=[watching])
    print(
        heading("what", "cases", "arrays", "largest difference", "of what is allowed")
    )
    for what, test in PROMISES.items():
        seen = watching.seen[test]
        cases = f"{seen.passed} of {seen.passed + seen.failed}"
        cells = f"{seen.arrays:,}", f"{seen.difference:.1e}", f"{seen.share:.0%}"
        if not seen.difference:
            cells = cells[0], "the same bits", "–"
        print(row(what, cases, *cells))
    sys.exit(code)


def test_of(nodeid: str) -> str:
    """A test without what it is given."""
    return nodeid.partition("[")[0]


if __name__ == "__main__":
    main()
