"""Each kind of objective has the parts that the type checker cannot miss.

Runs without TensorFlow, so that `make check` takes seconds. `tests/contracts` checks
models.
"""

from importlib.resources import files

import pytest

from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.objectives.traits import TRAITS
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.sources.readers.table_rows import row_document
from transbeam.serving.phone.readme.sample_templates import LABEL_SET, LANGUAGES, USES
from transbeam.serving.predict.formatting.formatters import formatter_of_outputs

README = files("transbeam.serving.phone.readme")
TEMPLATES = README / "templates/uses"
CODE = (README / "code_samples.py").read_text("utf-8")
ACTIVATIONS = {row.activation for row in TRAITS.values()} - {None}
SAMPLES = {*USES.values(), LABEL_SET, *ACTIVATIONS}


@pytest.mark.parametrize("kind", TRAITS)
def test_a_row_of_a_table_becomes_a_document(kind: str) -> None:
    fields = set(TRAITS[kind].fields) - {"image", "answers"}
    columns = ColumnsConfig(**{name: name for name in fields})
    row = {"text": "x", **dict.fromkeys(fields, "x")}
    if "messages" in fields:
        row["messages"] = [{"role": "user", "content": "x"}]
    document = row_document(row, columns, "a.jsonl", 0)
    assert isinstance(document, Document)
    assert all(getattr(document, name) for name in fields)


@pytest.mark.parametrize("kind", TRAITS)
def test_answers_have_a_formatter(kind: str) -> None:
    assert formatter_of_outputs(frozenset(TRAITS[kind].outputs)) is not None


@pytest.mark.parametrize("kind", TRAITS)
def test_phones_have_a_code_sample(kind: str) -> None:
    row = TRAITS[kind]
    if "encoder" in row.models and row.ids_signature is not None:
        assert row.ids_signature in USES


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples_are_in_each_language(name: str, language: str) -> None:
    assert (TEMPLATES / f"{name}.{language}").is_file()


def test_each_template_is_used() -> None:
    for file in TEMPLATES.iterdir():
        name, _, language = file.name.partition(".")
        assert language in LANGUAGES, file.name
        assert name in SAMPLES or f'"{name}"' in CODE, file.name
