"""A run whose source or tokenizer cannot give what its objective needs is refused."""

from pathlib import Path

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.objective_requirements import check_needs
from transbeam.configs.loader.yaml_config import load_run

LABELS = "labels: [a, b]"


def load(tmp_path: Path, data: str, objective: str, tokenizer: str = ""):
    (tmp_path / "run.yaml").write_text(
        f"name: x\ndata: {{source: {data}}}\nobjective: {objective}\n"
        + (f"tokenizer: {tokenizer}\n" if tokenizer else "")
    )
    return load_run(tmp_path / "run.yaml", rules=[check_needs])


@pytest.mark.parametrize(
    ("source", "objective", "told"),
    [
        (
            '{kind: text, path: "a.txt"}',
            f"{{kind: classification, {LABELS}}}",
            "needs label of each document, and data.source.kind=text as configured "
            "gives text alone",
        ),
        (
            '{kind: jsonl, path: "a.jsonl"}',
            f"{{kind: pair_classification, {LABELS}}}",
            "Name its column: data.source.columns={second_text: COLUMN, label: COLUMN}",
        ),
        (
            '{kind: csv, path: "a.csv", columns: {words: w}}',
            f"{{kind: token_classification, {LABELS}}}",
            "needs tags of each document",
        ),
        (
            '{kind: parquet, path: "a.parquet"}',
            "{kind: span_qa}",
            "data.source.columns={second_text: COLUMN, target_text: COLUMN}",
        ),
        (
            '{kind: jsonl, path: "a.jsonl"}',
            '{kind: text_to_text, source: "say: {text}"}',
            "needs target_text",
        ),
        (
            "{kind: python_docs, packages: [rich]}",
            "{kind: seq2seq}",
            "needs target_text",
        ),
        (
            '{kind: csv, path: "a.csv"}',
            "{kind: contrastive_pairs}",
            "needs second_text of each document",
        ),
        (
            '{kind: csv, path: "a.csv", columns: {second_text: b}}',
            "{kind: contrastive_pairs, hard_negatives: true}",
            "data.source.columns={negative_text: COLUMN}",
        ),
        (
            '{kind: csv, path: "a.csv", columns: {second_text: b, negative_text: c}}',
            "{kind: contrastive_pairs}",
            "data.source.columns.negative_text is read only with "
            "objective.hard_negatives=true",
        ),
        (
            '{kind: conll, path: "a.conll"}',
            "{kind: regression}",
            "gives text and words and tags alone. Take a source",
        ),
        (
            '{kind: mixture, parts: [{source: {kind: jsonl, path: "a", columns: '
            '{label: l}}}, {source: {kind: warc, path: "b"}}]}',
            "{kind: regression}",
            "data.source.kind=warc as configured gives text alone",
        ),
    ],
)
def test_a_source_without_what_is_needed(tmp_path, source, objective, told) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, source, objective)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("source", "objective"),
    [
        (
            '{kind: jsonl, path: "a", columns: {second_text: b, label: l}}',
            f"{{kind: pair_classification, {LABELS}}}",
        ),
        (
            '{kind: tfrecord, path: "a", columns: {label: l}}',
            '{kind: text_to_text, source: "say: {text}", target: "{label}"}',
        ),
        (
            '{kind: csv, path: "a", columns: {second_text: b, negative_text: c}}',
            "{kind: contrastive_pairs, hard_negatives: true}",
        ),
        (
            # A part of a mixture may have no hard negatives.
            '{kind: mixture, parts: [{source: {kind: csv, path: "a", columns: '
            '{second_text: b, negative_text: c}}}, {source: {kind: csv, path: "b", '
            "columns: {second_text: b}}}]}",
            "{kind: contrastive_pairs, hard_negatives: true}",
        ),
        (
            '{kind: squad, path: "a", answers: texts}',
            '{kind: completion, prompt: "{text} {second_text}"}',
        ),
        ('{kind: squad, path: "a"}', "{kind: span_qa}"),
        # Answers in other words.
        (
            '{kind: csv, path: "a", columns: {second_text: b, target_text: c}}',
            "{kind: span_qa}",
        ),
        ('{kind: squad, path: "a"}', "{kind: causal}"),
        (
            '{kind: conllu, path: "a", tags: upos}',
            f"{{kind: token_classification, {LABELS}}}",
        ),
        ("{kind: python_docs, packages: [a], examples: summaries}", "{kind: seq2seq}"),
    ],
)
def test_a_source_with_it(tmp_path, source, objective) -> None:
    tokenizer = "{kind: byte_bpe}" if "causal" in objective else ""
    load(tmp_path, source, objective, tokenizer)


def test_validation_and_test_sources_are_held_to_it(tmp_path) -> None:
    run = tmp_path / "run.yaml"
    for section in ("data: {validation_source: %s}", "evaluation: {test: %s}"):
        run.write_text(
            "name: x\n"
            + section.replace(
                "data: {",
                "data: {source: {kind: jsonl, path: a, columns: {label: l}}, ",
            )
            % '{kind: text, path: "b.txt"}'
            + (
                ""
                if "data" in section
                else "\ndata: {source: {kind: jsonl, path: a, columns: {label: l}}}"
            )
            + f"\nobjective: {{kind: classification, {LABELS}}}\n"
        )
        with pytest.raises(ConfigError, match=r"(validation_source|test).kind=text as"):
            load_run(run, rules=[check_needs])


@pytest.mark.parametrize(
    ("objective", "tokenizer", "told"),
    [
        (
            "{kind: span_corruption}",
            "{kind: unigram}",
            "needs 8 sentinel pieces for data.sequence_length=128, and the tokenizer "
            "has 0. Set tokenizer.num_sentinels=8",
        ),
        ("{kind: masked}", "{kind: byte_bpe}", "needs a piece that hides a token"),
        (
            f"{{kind: classification, {LABELS}}}",
            "{kind: unigram}",
            "needs a piece that stands before a text",
        ),
    ],
)
def test_a_tokenizer_without_what_is_needed(
    tmp_path, objective, tokenizer, told
) -> None:
    source = '{kind: jsonl, path: "a", columns: {label: l}}'
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, source, objective, tokenizer)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("template", "tokenizer", "told"),
    [
        ("", "{kind: byte_bpe}", "needs a chat template"),
        (", chat_template: chatml", "{kind: byte_bpe}", "no piece of a tokenizer"),
    ],
)
def test_a_dialogue_whose_template_cannot_be_read(
    tmp_path, template, tokenizer, told
) -> None:
    source = "{kind: jsonl, path: a.jsonl, columns: {messages: m}}"
    objective = f"{{kind: dialogue{template}}}"
    with pytest.raises(ConfigError, match=told):
        load(tmp_path, source, objective, tokenizer)
    load(tmp_path, source, objective, "{kind: pretrained, path: somewhere}")
