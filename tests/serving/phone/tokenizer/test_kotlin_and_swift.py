"""Tokenizer.kt and Tokenizer.swift answer as the Python one and the golden files do.

They are compiled and run, Kotlin where Java and Maven are, Swift where `swiftc` is.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.harness.stages import copy_of
from tests.pipeline.tokenizers.sentencepiece_models import SENTENCES
from tests.serving.phone.kotlin_compiler import JVM, kotlin, run
from tests.serving.phone.tokenizer.sample_tokenizers import (
    NAMES,
    WITH_GOLDEN,
    data,
    engine_ids,
    handed_over,
    random_texts,
    reference,
)
from transbeam.configs.base.atomic_files import write_atomically
from transbeam.serving.phone.tokenizer.golden_ids import FILE as GOLDEN
from transbeam.serving.phone.tokenizer.sources import tokenizer as source
from transbeam.serving.phone.tokenizer.tokenizer_data import FILE

HERE = Path(__file__).parent
SOURCES = Path(source.__file__).parent
GOLDEN_TEST = "test_the_golden_ids_are_found"
LENGTH = 12
LONG = ("wordpiece (True, False)", "albert")  # with a piece that hides a token
TEXTS = [*HOSTILE_TEXTS, *SENTENCES, *random_texts(100, seed="programs")]

_DAMAGED = {
    "other format": {"format": "other"},
    "other version": {"version": 2},
    "other kind": {"kind": "word"},
    "without pieces": {"pieces": None},
    "without rules": {"normalizer": {}},
    "a score that is no number": {"scores": ["one"]},
}


@pytest.fixture(scope="module", params=["Kotlin", "Swift"])
def answers(request, tmp_path_factory):
    """Output of a program for each tokenizer and for damaged data."""
    folder = tmp_path_factory.mktemp(request.param)
    compiled = {"Kotlin": _kotlin, "Swift": _swift}[request.param]
    (folder / "program").mkdir()
    program = compiled(folder / "program")
    with_golden = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.name.startswith(f"{GOLDEN_TEST}[")
    } | {"unigram"}
    for name in NAMES:
        if name in with_golden:
            copy_of(handed_over(name), folder / name)
        else:
            (folder / name).mkdir()
            (folder / name / FILE).write_text(json.dumps(data(name)), "utf-8")
    good = json.loads((folder / "unigram" / FILE).read_text())
    for name, change in _DAMAGED.items():
        (folder / name).mkdir()
        write_atomically(folder / name / FILE, json.dumps(good | change))
    _write_spoiled(folder / "spoiled", folder / "unigram")
    every = [*NAMES, *_DAMAGED, "spoiled"]
    for name in every:
        asked = {"length": LENGTH, "texts": TEXTS, "longest": source.LONGEST}
        write_atomically(folder / name / "questions.json", json.dumps(asked))
    run([*program, *(str(folder / name) for name in every)])
    return {
        name: json.loads((folder / name / "answers.json").read_text()) for name in every
    }


def _write_spoiled(folder, good):
    """A tokenizer with a file of golden ids of which every part is wrong once."""
    shutil.copytree(good, folder)
    golden = json.loads((folder / GOLDEN).read_text())
    case = next(case for case in golden["cases"] if case["second_text"])
    changed = {"ids": [], "decoded": "x", "prompt_ids": [0], "truncated": None}
    changed |= {name: [9] for name in ("token_ids", "padding_mask", "segment_ids")}
    golden["cases"] = [case, *(case | {name: changed[name]} for name in changed)]
    write_atomically(folder / GOLDEN, json.dumps(golden))


def _kotlin(_):
    """The command that runs the compiled class."""
    made = kotlin()
    paths = f"{made.tokenizer}:{made.path}"
    return [*JVM, "-Dfile.encoding=US-ASCII", "-cp", paths, "transbeam.MainKt"]


def _swift(folder):
    """The compiled program; a warning is an error."""
    compiler = shutil.which("swiftc")
    if compiler is None:
        pytest.skip("no swiftc, with which Swift is compiled")
    sources = [SOURCES / "Tokenizer.swift", HERE / "swift/main.swift"]
    program = folder / "program"
    options = ["-O", "-warnings-as-errors", "-o", str(program)]
    run([compiler, *options, *map(str, sources)])
    return [str(program)]


@pytest.mark.parametrize("name", WITH_GOLDEN)
def test_the_golden_ids_are_found(answers, name):
    assert answers[name]["disagreements"] == []


def test_a_wrong_golden_id_is_named(answers):
    found = answers["spoiled"]["disagreements"]
    parts = "ids decoded prompt_ids truncated token_ids padding_mask segment_ids"
    assert len(found) == len(parts.split())
    for part, message in zip(parts.split(), found, strict=True):
        assert f": {part} is " in message


@pytest.mark.parametrize("name", NAMES)
def test_all_texts_have_the_ids_of_the_graph(answers, name):
    found = [one["ids"] for one in answers[name]["texts"]]
    assert found == engine_ids(name, TEXTS)


@pytest.mark.parametrize("name", NAMES)
def test_rows_prompts_and_texts_are_those_of_the_python_tokenizer(answers, name):
    tokenizer = reference(name)

    def listed(row):
        return [*row, tokenizer.masked_positions(row, 3)]

    def refusing(answer, *arguments):
        try:
            found = answer(*arguments)
        except ValueError:
            return "refused"
        return listed(found) if isinstance(found, tuple) else found

    before = []
    for text, found in zip(TEXTS, answers[name]["texts"], strict=True):
        ids = tokenizer.encode(text)
        assert found == {
            "ids": ids,
            "masks": refusing(tokenizer.encode_with_masks, text),
            "frame": refusing(tokenizer.frame, ids, LENGTH),
            "pair": refusing(tokenizer.frame_pair, before, ids, LENGTH),
            "source": refusing(tokenizer.source, ids, LENGTH),
            "prompt": tokenizer.prompt(ids, LENGTH),
            "decoded": tokenizer.decode(ids),
        }
        before = ids


@pytest.mark.parametrize("name", LONG)
def test_texts_up_to_a_length_are_read(answers, name):
    assert answers[name]["long"] == {
        "longest": "read",
        "longest with masks": "read",
        "longer": "refused",
        "longer with masks": "refused",
    }


@pytest.mark.parametrize("name", _DAMAGED)
def test_damaged_data_are_refused(answers, name):
    assert set(answers[name]) == {"refused"}
    assert (
        "Take the file" in answers[name]["refused"]
        or "expected one of" in (answers[name]["refused"])
    )
