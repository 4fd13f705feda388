"""The heat map of the gradient's norms."""

import numpy as np
import pytest

from transbeam.trainer.pages.gradient_chart import (
    draw_gradient_norms,
    gradient_chart,
    gradient_norms,
)


def rows(*norms: dict[str, float]) -> list[dict]:
    return [{"step": 10 * i + 10, "gradient_norms": x} for i, x in enumerate(norms)]


def cells(steps: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """The numbers that the colors of a picture stand for."""
    names = [f"part {i}" for i in range(len(norms))]
    (image,) = draw_gradient_norms(steps, names, norms).axes[0].images
    return np.asarray(image.get_array().filled(np.nan))


def test_each_line_of_the_log_is_a_column() -> None:
    steps, parts, norms = gradient_norms(rows({"a": 1.0, "b": 0.0}, {"a": 2.0}))
    assert (steps.tolist(), parts) == ([10, 20], ["a", "b"])
    np.testing.assert_array_equal(norms, [[1, 2], [0, np.nan]])
    # What is zero has no logarithm: it is left empty, as what is missing.
    np.testing.assert_array_equal(cells(steps, norms), [[1, 2], [np.nan, np.nan]])
    figure = draw_gradient_norms(steps, parts, norms)
    axes, scale = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.images[0].get_extent() == [0, 20, 1.5, -0.5]
    assert scale.get_ylim() == pytest.approx((1, 2))


def test_a_long_log_is_drawn_by_means_of_its_lines() -> None:
    norms = np.arange(1.0, 961.0).reshape(1, 960)
    shown = cells(np.arange(960), norms)
    assert shown.shape == (1, 240)
    np.testing.assert_allclose(shown[0, :2], [2.5, 6.5])
    assert shown[0, -1] == 958.5


def test_one_number_has_a_scale_and_none_no_chart() -> None:
    assert "<image" in gradient_chart(rows({"encoder_layer_0": 0.5}))
    assert "encoder layer 0" in gradient_chart(rows({"encoder_layer_0": 0.5}))
    assert gradient_chart([{"step": 1, "loss": 2.0}]) == ""
    assert gradient_chart(rows({"a": 0.0})) == ""
