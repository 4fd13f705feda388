"""Sources that are tables: what the YAML says, and what it may not say."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.table_sources import CsvSourceConfig

RUN = """\
name: small
training: {steps: 1000}
data:
  source:
    path: corpus/*
"""


def parse(source: str):
    return parse_run(RUN + source, "run.yaml", ()).data.source


def test_csv_in_full():
    source = parse(r"""
    kind: csv
    columns: {text: "1", label: "0"}
    header: false
    delimiter: "\t"
    quoting: none
""")
    assert source == CsvSourceConfig(
        path="corpus/*",
        columns=ColumnsConfig(text="1", label="0"),
        header=False,
        delimiter="\t",
        quoting="none",
    )
    assert source.columns.names() == ["1", "0"]


def test_columns_of_templates_are_read_once_each():
    columns = ColumnsConfig(
        text="{b} {a}", second_text="{a}", target_text="c", label="b"
    )
    assert columns.names() == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{title", "A brace that is meant is written twice"),
        ("{}", "text='{}': braces without the name of a column inside"),
        ("{{title}}", "the same for every document"),
    ],
)
def test_templates_that_say_nothing(text: str, message: str):
    with pytest.raises(ConfigError, match=message):
        ColumnsConfig(text=text)


def test_words_take_the_place_of_the_text():
    columns = parse("    kind: jsonl\n    columns: {words: tokens, tags: ner}").columns
    assert columns.names() == ["tokens", "ner"]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (
            "    kind: jsonl\n    columns: {tags: ner}",
            "run.yaml:7: data.source.columns",
        ),
        ("    kind: jsonl\n    columns: {tags: ner}", "tags='ner' without `words`"),
        ("    kind: jsonl\n    columns: {texts: a}", "Did you mean 'text'?"),
        ("    kind: csv\n    columns: {text: 1}", "expected text, found the number 1"),
        (
            "    kind: csv\n    delimiter: tab",
            "delimiter='tab': expected one character",
        ),
        ("    kind: csv\n    delimiter: ''", "delimiter='': expected one character"),
        ("    kind: csv\n    delimiter: '\"'", "expected one character, not a quote"),
        ("    kind: csv\n    encoding: utf8mb4", "run.yaml:7: data.source: encoding="),
        ("    kind: conll\n    encoding: rot13", "run.yaml:7: data.source: encoding="),
        ("    kind: csv\n    hash_range: [0.5]", "expected two ascending numbers"),
        ("    kind: csv\n    hash_range: [0.5, 0.5]", "expected two ascending numbers"),
        ("    kind: csv\n    hash_range: [0, 1.5]", "expected two ascending numbers"),
        (
            "    kind: csv\n    columns: {label_names: {a: b}}",
            "label_names: without `label` there is nothing to name",
        ),
        (
            "    kind: csv\n    columns: {label: y, label_names: {}}",
            "expected a name for each label, found none",
        ),
        (
            '    kind: csv\n    columns: {label: y, label_names: {"0": ""}}',
            "the name of '0' is empty",
        ),
        (
            '    kind: csv\n    columns: {label: y, label_names: {"0": 1}}',
            "data.source.columns.label_names.0: expected text, found the number 1",
        ),
        (
            "    kind: csv\n    columns: {label: y, label_names: [a, b]}",
            "expected a mapping from text to text, found a list",
        ),
        ("    kind: xml", "data.source.row: this required key is missing"),
        ("    kind: parallel", "target_path: this required key is missing"),
        ("    kind: conllu\n    tags: pos", "expected 'upos' or 'xpos' or 'deprel'"),
    ],
)
def test_what_is_refused(source, error):
    with pytest.raises(ConfigError) as caught:
        parse(source)
    assert error in str(caught.value)
