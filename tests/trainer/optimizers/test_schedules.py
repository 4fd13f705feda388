"""Learning rates by hand, and by the formulas of the papers."""

from typing import Any, get_args

import keras
import numpy as np
import pytest

from transbeam.configs.schema.schedules import (
    ConstantScheduleConfig,
    CosineScheduleConfig,
    InverseSqrtScheduleConfig,
    LinearScheduleConfig,
    NoamScheduleConfig,
    Schedule,
    WsdScheduleConfig,
    common_steps,
)
from transbeam.trainer.optimizers.schedules import build_schedule

EVERY = [kind(warmup_steps=3) for kind in get_args(Schedule)]


def rates(config: Schedule, at: Any, steps: int = 12, hidden_dim: int = 64):
    schedule = build_schedule(config, steps, hidden_dim)
    return [float(schedule(step)) for step in at]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Half way down: 0.1 + 0.9 / 2 of the peak.
        (CosineScheduleConfig, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2]),
        (LinearScheduleConfig, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2]),
        (ConstantScheduleConfig, [0.5, 2.0, 2.0, 2.0, 2.0, 2.0]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_by_hand(config: Any, expected: list[float]) -> None:
    end = {} if config is ConstantScheduleConfig else {"final_fraction": 0.1}
    schedule = config(peak=2.0, warmup_steps=4, **end)
    np.testing.assert_allclose(
        rates(schedule, (0, 3, 4, 8, 12, 20)), expected, rtol=1e-6
    )


def test_a_quarter_of_the_way_tells_cosine_from_linear() -> None:
    cosine = CosineScheduleConfig(peak=1.0, warmup_steps=4)
    linear = LinearScheduleConfig(peak=1.0, warmup_steps=4)
    assert rates(cosine, [6]) == pytest.approx([0.5 + 0.5 * np.cos(np.pi / 4)])
    assert rates(linear, [6]) == pytest.approx([0.75])


def test_inverse_sqrt_by_hand() -> None:
    schedule = InverseSqrtScheduleConfig(peak=2.0, warmup_steps=4)
    # Updates 1, 4, 9, 16 and 36 of the run.
    expected = [0.5, 2.0, 2.0 * 2 / 3, 1.0, 2.0 / 3]
    np.testing.assert_allclose(rates(schedule, (0, 3, 8, 15, 35)), expected, rtol=1e-6)


def test_noam_is_the_paper_s_formula() -> None:
    step = np.arange(1, 200)
    expected = 2.0 * 512**-0.5 * np.minimum(step**-0.5, step * 40**-1.5)
    schedule = NoamScheduleConfig(factor=2.0, warmup_steps=40)
    np.testing.assert_allclose(
        rates(schedule, step - 1, steps=200, hidden_dim=512), expected, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("shape", "a_quarter", "half"),
    [("linear", 3 / 4, 1 / 2), ("sqrt", 1 - (1 / 4) ** 0.5, 1 - (1 / 2) ** 0.5)],
)
def test_wsd_by_hand(shape: Any, a_quarter: float, half: float) -> None:
    schedule = WsdScheduleConfig(
        peak=4.0, warmup_steps=4, decay_fraction=0.4, shape=shape, final_fraction=0.25
    )
    # Of 20 steps the last 8 decay.
    got = rates(schedule, (0, 3, 4, 12, 14, 16, 20), steps=20)
    expected = [1.0, 4.0, 4.0, 4.0, 1.0 + 3.0 * a_quarter, 1.0 + 3.0 * half, 1.0]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_wsd_without_decay_is_constant() -> None:
    stable = WsdScheduleConfig(peak=0.5, warmup_steps=2, decay_fraction=0.0)
    constant = ConstantScheduleConfig(peak=0.5, warmup_steps=2)
    assert rates(stable, range(12)) == rates(constant, range(12))


@pytest.mark.parametrize(
    "kind", [CosineScheduleConfig, LinearScheduleConfig, ConstantScheduleConfig]
)
def test_without_warmup_starts_at_the_peak(kind: Any) -> None:
    assert rates(kind(peak=0.5, warmup_steps=0), [0]) == [0.5]


@pytest.mark.parametrize("kind", [CosineScheduleConfig, LinearScheduleConfig])
def test_all_warmup_stays_finite(kind: Any) -> None:
    got = rates(kind(peak=1.0, warmup_steps=12), range(12))
    np.testing.assert_allclose(got, np.arange(1, 13) / 12, rtol=1e-6)


@pytest.mark.parametrize("config", EVERY, ids=lambda config: config.kind)
@pytest.mark.parametrize("steps", [12, 16, 40])
def test_common_steps_have_the_same_rates(config: Schedule, steps: int) -> None:
    shared = common_steps(config, 12, steps)
    assert shared == {"cosine": 3, "linear": 3, "wsd": 11}.get(config.kind, 12) or (
        steps == shared == 12
    )
    assert rates(config, range(shared)) == rates(config, range(shared), steps=steps)


@pytest.mark.parametrize("config", EVERY, ids=lambda config: config.kind)
def test_restored_from_its_config(config: Schedule) -> None:
    schedule = build_schedule(config, 12, 64)
    restored = keras.optimizers.schedules.deserialize(
        keras.optimizers.schedules.serialize(schedule)
    )
    assert type(restored) is type(schedule)
    for step in range(15):
        assert float(restored(step)) == float(schedule(step))


@pytest.mark.parametrize("config", EVERY, ids=lambda config: config.kind)
def test_rises_in_a_line_and_never_above_the_peak(config: Schedule) -> None:
    got = np.array(rates(config, range(12)))
    np.testing.assert_allclose(got[:3] / got[2], [1 / 3, 2 / 3, 1.0], rtol=1e-6)
    assert np.all(np.diff(got[2:]) <= 0)
    assert np.all(got > 0)
