"""Curves of the scores of a training's log, such as the accuracy."""

from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.trainer.pages.svg_curves import Curve

Rows = Sequence[Mapping[str, Any]]

VALIDATION = "val_"


def score_names(rows: Rows) -> list[str]:
    """Names the scores that a log has: the metrics of validations that are no losses.

    Example:
    >>> row = {"step": 5, "val_loss": 2.0, "val_accuracy": 0.5, "val_loss_pair": 0.1}
    >>> score_names([{"step": 5, "loss": 2.1, "accuracy": 0.4}, row])
    ['accuracy']
    """
    found = (key for row in rows for key in row if key.startswith(VALIDATION))
    names = dict.fromkeys(key.removeprefix(VALIDATION) for key in found)
    return [name for name in names if name.partition("_")[0] != "loss"]


def score_title(name: str) -> str:
    """Returns the heading of a score.

    Example:
    >>> score_title("macro_f1"), score_title("mae")
    ('Macro F1', 'MAE')
    """
    words = [_WORDS.get(word, word) for word in name.split("_")]
    return f"{words[0][0].upper()}{words[0][1:]} {' '.join(words[1:])}".rstrip()


_WORDS = {"f1": "F1", "mae": "MAE"}


def points(rows: Rows, name: str) -> list[tuple[float, float]]:
    """The steps and values of a number of the log."""
    return [(row["step"], row[name]) for row in rows if name in row]


def both_curves(rows: Rows, name: str) -> list[Curve]:
    """Returns the curves of a number in training, if it is logged, and in validation.

    Example:
    >>> rows = [{"step": 5, "mae": 0.4}, {"step": 5, "val_mae": 0.5, "val_f1": 0.7}]
    >>> [(curve.name, curve.points) for curve in both_curves(rows, "mae")]
    [('training', [(5, 0.4)]), ('validation', [(5, 0.5)])]
    """
    return [
        Curve("training", points(rows, name)),
        Curve("validation", points(rows, VALIDATION + name), dots=True),
    ]
