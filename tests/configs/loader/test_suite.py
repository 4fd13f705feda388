"""The file of a suite: rows of runs, and what may not be in it."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.suite import Score, load_suite

BASE = """
name: other
data: {source: {kind: csv, path: a.csv, columns: {label: l}}, sequence_length: 32}
objective: {kind: classification, labels: [a, b]}
training: {steps: 300, batch_size: 8}
"""
WHOLE = """\
name: two
run:
  training: {steps: 200, batch_size: 16}
rows:
  - name: one
    base: base.yaml
    run: {training: {steps: 250}}
    scores: {accuracy: validation.accuracy}
  - name: two
    run:
      data: {source: {kind: csv, path: b.csv, columns: {label: l}}}
      objective: {kind: regression}
      evaluation: {test: {kind: csv, path: c.csv, columns: {label: l}}}
    scores:
      pearson: test.pearson_correlation
      spearman: validation.spearman_correlation
"""


def read(tmp_path: Path, text: str = WHOLE, *overrides: str):
    (tmp_path / "base.yaml").write_text(BASE, "utf-8")
    file = tmp_path / "suite.yaml"
    file.write_text(text, "utf-8")
    return load_suite(file, overrides)


def test_a_row_is_its_base_with_the_common_keys_and_its_own_over_it(tmp_path) -> None:
    suite = read(tmp_path, WHOLE, "seed=5")
    one, two = suite.rows
    assert (suite.name, one.name, two.name) == ("two", "one", "two")
    assert (one.config.name, two.config.name) == ("two_one", "two_two")
    assert one.config.data.sequence_length == 32
    assert (one.config.training.steps, one.config.training.batch_size) == (250, 16)
    assert (two.config.training.steps, two.config.training.batch_size) == (200, 16)
    assert {row.config.seed for row in suite.rows} == {5}
    assert one.scores == {"accuracy": Score("validation", "accuracy")}
    assert (one.splits, two.splits) == (("validation",), ("validation", "test"))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: two\nrun", "run", "suite.yaml:1: name: is missing; a suite needs it"),
        ("name: two\nrun", "name: a/b\nrun", "expected letters, digits"),
        (
            "rows:",
            "row:",
            "suite.yaml:4: row: is no key of a suite. Did you mean 'rows'",
        ),
        (WHOLE, "name: a\nrows: []", "rows: expected a list of rows, found a list"),
        (WHOLE, "name: a", "rows: expected a list of rows, found nothing"),
        (WHOLE, "name: a\nrows: [b]", "rows[0]: expected a row, found the text 'b'"),
        (WHOLE, "- a", "expected the keys of a suite: name, run, rows"),
        (
            "    run: {tr",
            "    runs: {tr",
            "suite.yaml:7: runs: is no key of a row of a",
        ),
        (
            "  - name: two",
            "  - name: one",
            "suite.yaml:9: name: two rows are named 'one'",
        ),
        ("{steps: 250}", "{step: 250}", "suite.yaml:7: training.step: unknown key"),
        ("base.yaml", "bases.yaml", "suite.yaml:6: base: "),
        ("regression", "regresion", "suite.yaml:12: objective.kind: no such kind"),
        (
            ": validation.accuracy",
            ": accuracy",
            "suite.yaml:8: scores.accuracy: expected",
        ),
        (
            ": validation.accuracy",
            ": train.accuracy",
            "expected validation.SCORE or test",
        ),
        (": validation.accuracy", ": test.accuracy", "has no evaluation.test"),
        ("scores: {accuracy: validation.accuracy}", "scores: {}", "expected names and"),
        ("    run: {tr", "    run: {name: x, tr", "run.name: is set by the suite"),
        ("    run: {tr", "    run: {extends: x, tr", "Write `base` in the row"),
        (
            "run:\n  tr",
            "run:\n  extends: x\n  tr",
            "suite.yaml:3: run.extends: is set by",
        ),
    ],
)
def test_what_is_wrong_with_it_is_told(tmp_path, old, new, told) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigError) as error:
        read(tmp_path, WHOLE.replace(old, new))
    assert told in str(error.value)


def test_an_override_that_fits_no_row_names_itself(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"--set training\.stepz=1: training\.stepz"):
        read(tmp_path, WHOLE, "training.stepz=1")
    with pytest.raises(ConfigError, match=r"model\.init_from: runs/none"):
        read(tmp_path, WHOLE, "model.init_from=runs/none")
