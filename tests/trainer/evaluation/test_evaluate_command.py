"""`transbeam evaluate` on the validation split and on a test set."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.serving.untrained import write_signatures
from tests.trainer.evaluation.conftest import lines, read_lines, write_pairs
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.cli.arguments import Invocation
from transbeam.pipeline.evaluation_set import (
    make_evaluation_set,
    read_validation_documents,
)
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.evaluation.evaluate_command import EvaluationSplit, evaluate_run
from transbeam.trainer.evaluation.generation_eval import Answered
from transbeam.trainer.evaluation.part_scores import score_parts
from transbeam.trainer.metrics.generated_text import BLEU


def parallel(folder: Path, name: str = "test") -> str:
    return (
        f"{{kind: parallel, path: {folder}/{name}.a, target_path: {folder}/{name}.b}}"
    )


def test_answers_to_every_validation_text_and_those_of_an_export(
    translator, tmp_path
) -> None:
    run = translator("evaluation.max_new_tokens=6")
    result = evaluate_run(run)
    evaluations = run.run_folder / "evaluation"
    rows = read_lines(evaluations / "validation/answers.jsonl")
    # In the order of the corpus.
    assert [(row["text"], row["target"]) for row in rows] == lines(20, first=200)
    bleu = BLEU().statistics(*([r[k] for r in rows] for k in ("answer", "target")))
    expected = BLEU().scores(bleu.sum(axis=0))["bleu"].item()
    assert result["scores"]["bleu"]["score"] == pytest.approx(expected)
    assert result["signatures"].keys() == {"bleu", "chrf"}
    stored = evaluations / "validation/scores.json"
    assert json.loads(stored.read_text()) == result
    check_export(run, tmp_path)


@pytest.mark.thorough(
    instead="test_answers_to_every_validation_text_and_those_of_an_export, "
    "test_an_answer_does_not_depend_on_its_neighbours"
)
def test_an_export_that_searches_with_beams(translator, tmp_path) -> None:
    run = translator(
        "evaluation.max_new_tokens=6", "evaluation.method={kind: beam, num_beams: 2}"
    )
    evaluate_run(run)
    check_export(run, tmp_path)


def check_export(run: Invocation, folder: Path) -> None:
    """It answers and scores as the model that it is of, which is evaluated."""
    evaluations = run.run_folder / "evaluation"
    trained = load_trained(run.run_folder, run.config)
    asked = ("serving_default", "logits_ids")
    write_signatures(trained, folder / "saved_model/1", *asked)
    found = evaluate_run(run, model=folder / "saved_model")
    answers = (evaluations / "validation/answers.jsonl").read_bytes()
    theirs = evaluations / "of-saved_model-1/validation/answers.jsonl"
    assert theirs.read_bytes() == answers
    assert found["differences"].keys() >= {"perplexity", "accuracy", "bleu", "chrf"}
    assert found["differences"] == pytest.approx(
        dict.fromkeys(found["differences"], 0), abs=1e-3
    )


def test_a_test_set_is_read_whole_and_changes_nothing_of_the_run(
    translator, tmp_path
) -> None:
    pairs = [("a batch of tokens " * 20, "cut, not dropped"), *lines(5, first=400)]
    write_pairs(tmp_path, "test", [*pairs, *pairs[1:3]])  # copies count as well
    before = files_of(translator().run_folder)
    run = translator(
        f"evaluation.test={parallel(tmp_path)}",
        "evaluation.answers=3",
        "evaluation.max_new_tokens=4",
    )
    result = evaluate_run(run, on_test=True)
    assert result["left_out"] == {}
    rows = read_lines(run.run_folder / "evaluation/test/answers.jsonl")
    assert [row["target"] for row in rows] == [target for _, target in pairs[:3]]
    after = files_of(run.run_folder)
    new = {name for name in after if before.get(name) != after[name]}
    assert before.keys() <= after.keys()
    assert new
    assert all(name.startswith("evaluation/test/") for name in new)


def test_a_mixture_has_the_scores_of_each_part(translator, tmp_path) -> None:
    columns = "columns: {text: t, target_text: r.0, references: r}"
    for name in ("a", "b"):
        rows = [{"t": f"every {name} {n}", "r": ["y", "z"]} for n in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    parts = ", ".join(
        f"{{{name}source: {{kind: jsonl, path: {tmp_path}/{file}.jsonl, {columns}}}}}"
        for name, file in (("name: first, ", "a"), ("", "b"))
    )
    run = translator(
        f"evaluation.test={{kind: mixture, parts: [{parts}]}}",
        "evaluation.max_new_tokens=2",
        "evaluation.text_scores=[exact_match, bleu]",
    )
    result = evaluate_run(run, on_test=True)
    assert result["documents"] == 8
    assert result["scores_by_part"].keys() == {"first"}
    part = result["scores_by_part"]["first"]
    assert part["documents"] == 4
    assert part["scores"].keys() == {"exact_match", "bleu"}
    assert result["signatures"]["bleu"].startswith("nrefs:2|")
    rows = read_lines(run.run_folder / "evaluation/test/answers.jsonl")
    assert rows[0]["target"] == "y"
    assert rows[0]["references"] == ["y", "z"]


def test_scores_of_parts_by_hand(translator) -> None:
    answered = Answered(
        [("a", n) for n in range(4)],
        ["?"] * 4,
        [["yes"], ["no", "never"], ["yes"], ["yes"]],
        ["yes", "never", "no", "yes"],
        {},
        {},
    )
    config = translator("evaluation.text_scores=[exact_match]").config
    found = score_parts(answered, ["one", "two", "two", None, "one"], config)
    assert list(found) == ["one", "two"]
    assert (found["one"].texts, found["two"].texts) == (1, 2)
    assert found["one"].scores["exact_match"].score == 1.0
    assert found["two"].scores["exact_match"].score == 0.5


def files_of(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def packed_pairs(*pairs: tuple[str, str]) -> bytes:
    rows = [{"text": text, "target_text": target} for text, target in pairs]
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def test_what_cannot_be_asked_or_read_is_counted(translator, tmp_path) -> None:
    members = [packed_pairs(*lines(3, first=i)) for i in (400, 410)]
    members.append(packed_pairs(("", "no text"), ("no answer", ""), *lines(2)))
    damaged = bytearray(members[1])
    damaged[-6] ^= 1  # in its checksum
    path = tmp_path / "test.jsonl.gz"
    path.write_bytes(members[0] + damaged + members[2])
    columns = "columns: {text: text, target_text: target_text}"
    run = translator(
        f"evaluation.test={{kind: jsonl, path: {path}, {columns}}}",
        "evaluation.text_scores=[]",
    )
    result = evaluate_run(run, on_test=True)
    assert result["documents"] == 5
    assert result["left_out"] == {
        "damaged gzip stream": 1,
        "empty": 1,
        "field 'target_text' is empty": 1,
    }
    size, unread = path.stat().st_size, len(damaged)
    assert result["unread"]["bytes"] == unread
    told = f"{unread} of {size} bytes of test.jsonl.gz"
    assert result["summary"].endswith(f"; not read: {told}")
    folder = run.run_folder / "evaluation/test"
    written = json.loads((folder / "scores.json").read_text())
    assert written["unread"]["files"][0]["name"] == "test.jsonl.gz"
    assert told in (folder / "report.html").read_text()

    # A test set that is cut is none, unless the configuration says so; and what was
    # written before stays.
    (folder / "answers.jsonl").write_text("{}")
    before = files_of(folder)
    path.write_bytes(members[0] + members[1][:12])
    with pytest.raises(DataError) as caught:
        evaluate_run(run, on_test=True)
    assert str(caught.value) == (
        f"evaluation.test: test.jsonl.gz ends after {len(members[0]) + 12} bytes, "
        "3 documents; the rest is not in the file. Get the files again or take them "
        "out of the corpus; data.accept_incomplete_files=true uses what there is of "
        "them"
    )
    kept = {name: before[name] for name in before if not name.startswith("data/")}
    assert kept.items() <= files_of(folder).items()


def test_records_of_a_test_set_are_those_of_the_data_job(translator, tmp_path) -> None:
    run = translator()
    data = run.run_folder / "data"
    made = make_evaluation_set(
        run.config,
        run.config.data.validation_source,
        load_tokenizer(data / "tokenizer"),
        tmp_path / "set",
    )
    (theirs,) = read_manifest(data).split("validation")
    (ours,) = made.manifest.split("validation")
    assert (ours.records, ours.sha256) == (theirs.records, theirs.sha256)
    found = read_validation_documents(made.manifest, made.config.data)
    expected = read_validation_documents(read_manifest(data), run.config.data)
    assert found.texts() == expected.texts()
    for a, b in zip(
        found.placements.values(), expected.placements.values(), strict=True
    ):
        np.testing.assert_array_equal(a.document, b.document)
        np.testing.assert_array_equal(a.record, b.record)


def test_placements_say_which_text_a_record_holds(translator) -> None:
    run = translator()
    manifest = read_manifest(run.run_folder / "data")
    held_out = read_validation_documents(manifest, run.config.data)
    (placement,) = held_out.placements.values()
    assert sorted(placement.document) == list(range(20))
    assert (np.diff(placement.record) >= 0).all()


def test_without_a_test_set(translator, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"--set evaluation\.test="):
        evaluate_run(translator(), on_test=True)
    missing = translator(f"evaluation.test={parallel(tmp_path)}")
    with pytest.raises(DataError, match=r"^evaluation\.test: no file matches"):
        evaluate_run(missing, on_test=True)


def test_nothing_to_ask_in_a_test_set(translator, tmp_path) -> None:
    write_pairs(tmp_path, "test", [("no answer", "")])
    run = translator(f"evaluation.test={parallel(tmp_path)}")
    with pytest.raises(DataError, match="no target"):
        evaluate_run(run, on_test=True)


@pytest.mark.parametrize("has_validation", [True, False])
def test_scores_are_called_by_the_records_they_are_of(has_validation) -> None:
    manifest: Any = SimpleNamespace(has_validation=has_validation)
    config: Any = None
    called = "validation" if has_validation else "training"
    assert EvaluationSplit("validation", config, manifest).measured_on == called
    assert EvaluationSplit("test", config, manifest).measured_on == "test"
