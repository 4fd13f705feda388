"""`configs/suites/glue.yaml` on small files of GLUE's own layout, for all nine tasks.

The columns are those of the files that GLUE's own script downloads: quotes that are
never closed, CoLA without a header, QQP with lines that are too short.
"""

import contextlib
import io
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

import transbeam
from tests.small_run import WORDS
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.suite import load_suite
from transbeam.configs.schema.sources import Source
from transbeam.pipeline.documents.document import Document, Rejected
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.work_units import plan_units, read_unit
from transbeam.trainer import planned_runs
from transbeam.trainer.suite import SuiteOptions, suite

GLUE = Path(__file__).parents[2] / "configs/suites/glue.yaml"
ENTAILMENT = ("entailment", "not_entailment")
CLASSES = ("0", "1")
MNLI = ("neutral", "entailment", "contradiction")  # in no order of ids
# By row: folder, header, the form of a line, and labels. `S` and `T` are its texts, `L`
# its label, and the rest as it is.
LAYOUTS: dict[str, tuple[str, str | None, str, Sequence[str]]] = {
    "cola": ("CoLA", None, "gj04 L * S", CLASSES),
    "sst2": ("SST-2", "sentence label", "S L", CLASSES),
    "mrpc": ("MRPC", "Quality #1_ID #2_ID #1_String #2_String", "L 7 9 S T", CLASSES),
    "stsb": (
        "STS-B",
        "index genre filename year old_index source1 source2 sentence1 sentence2 score",
        "0 main-news headlines 2013 8 none none S T L",
        ("0.000", "1.250", "5.000", "3.800"),
    ),
    "qqp": (
        "QQP",
        "id qid1 qid2 question1 question2 is_duplicate",
        "133273 213221 213222 S T L",
        CLASSES,
    ),
    "mnli": (
        "MNLI",
        "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
        "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
        "0 31193 31193n fiction (S) (T) (ROOT) (ROOT) S T contradiction L",
        MNLI,
    ),
    "qnli": ("QNLI", "index question sentence label", "0 S T L", ENTAILMENT),
    "rte": ("RTE", "index sentence1 sentence2 label", "0 S T L", ENTAILMENT),
    "wnli": ("WNLI", "index sentence1 sentence2 label", "0 S T L", CLASSES),
}
TINY = (
    "tokenizer={kind: wordpiece, vocabulary_size: 100}",
    "model={kind: encoder, num_layers: 1, hidden_dim: 16, num_segments: 2, "
    "attention: {num_heads: 2}, feedforward: {intermediate_dim: 32}, pooler: {}}",
    "data.sequence_length=64",
    "data.layout={kind: bucketed, lengths: [64]}",
    "training.steps=2",
    "training.schedule.warmup_steps=1",
    "training.evaluate_every=2",
    "training.batch_size=4",
    # Two lines are a larger share of few.
    "data.maximum_quarantine_fraction=0.1",
)


def lines(name: str, count: int, seed: int) -> Iterable[str]:
    _, header, layout, labels = LAYOUTS[name]
    if header is not None:
        yield header.replace(" ", "\t").replace("_ID", " ID").replace("_S", " S")
    chance = random.Random(seed)
    for number in range(count):
        first, second = (" ".join(chance.choices(WORDS, k=6)) for _ in "ST")
        values = {
            "S": f'"{first}',
            "T": f"{second}.",
            "L": labels[number % len(labels)],
        }
        yield "\t".join(values.get(value, value) for value in layout.split(" "))


def write_glue() -> None:
    for seed, name in enumerate(LAYOUTS):
        folder = Path("corpus/glue", LAYOUTS[name][0])
        folder.mkdir(parents=True)
        devs = ("dev_matched", "dev_mismatched") if name == "mnli" else ("dev",)
        for split, count in (("train", 40), *((dev, 12) for dev in devs)):
            found = [*lines(name, count, seed=seed + count + len(split))]
            if name == "qqp" and split == "train":
                found[5:5] = ["133\t213\tHow do you do?", "7"]
            text = "".join(f"{line}\n" for line in found)
            (folder / f"{split}.tsv").write_text(text, "utf-8")


def read(source: Source | None) -> list[Document | Rejected]:
    assert source is not None
    units = plan_units(list_files(source), source, 10**6)
    return [item for unit in units for item in read_unit(unit, source)]


def run_here(words: list[str]) -> tuple[int, str]:
    """Runs a row's command in this process, which has imported everything."""
    assert words[1:4] == ["-P", "-m", "transbeam"]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = transbeam.main(words[4:])
    return code, output.getvalue()


def test_all_nine_tasks_are_read_as_they_lie(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_glue()
    rows = {row.name: row for row in load_suite(GLUE, TINY).rows}
    assert list(rows) == list(LAYOUTS)
    for name, row in rows.items():
        config, labels = row.config, LAYOUTS[name][3]
        sources = [config.data.source, config.data.validation_source]
        if name == "mnli":
            sources.append(config.evaluation.test)
        for number, source in enumerate(sources):
            found = read(source)
            documents = [item for item in found if isinstance(item, Document)]
            assert len(documents) == (12 if number else 40), name
            reasons = Counter(i.reason for i in found if isinstance(i, Rejected))
            short = {"not as many fields as the header": 2}
            assert reasons == (short if name == "qqp" and not number else {}), name
            assert {document.label for document in documents} == set(labels), name
            first = documents[0]
            assert first.text.startswith('"'), name
            assert len(first.text.split()) == 6, name
            is_pair = name not in ("cola", "sst2")
            assert first.second_text.endswith(".") == is_pair, name
        if config.objective.kind != "pair_regression":
            assert set(config.objective.labels) == set(labels), name
    # Ids are those of GLUE, whatever the order in the file is.
    assert rows["rte"].config.objective.labels == ENTAILMENT
    assert rows["mnli"].config.objective.labels == (
        "entailment",
        "neutral",
        "contradiction",
    )


@pytest.mark.thorough(
    instead="test_all_nine_tasks_are_read_as_they_lie, "
    "test_means_of_rows_and_the_mean_of_these"
)
def test_a_small_model_on_all_of_glue(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planned_runs, "run_command", run_here)
    write_glue()
    (tmp_path / "corpus/glue/WNLI/dev.tsv").unlink()
    result = suite(GLUE, SuiteOptions(overrides=TINY), Console(quiet=True))
    rows = {row["name"]: row for row in result["rows"]}
    assert rows.pop("wnli")["missing"] == ["corpus/glue/WNLI/dev.tsv"]
    assert {name: list(row["scores"]) for name, row in rows.items()} == {
        "cola": ["matthews"],
        "sst2": ["accuracy"],
        "mrpc": ["accuracy", "f1"],
        "stsb": ["pearson", "spearman"],
        "qqp": ["accuracy", "f1"],
        "mnli": ["matched", "mismatched"],
        "qnli": ["accuracy"],
        "rte": ["accuracy"],
    }
    assert rows["qqp"]["left_out"] == 2
    means = [row["mean"] for row in rows.values()]
    assert result["average"] == pytest.approx(np.mean(means))
    # The same command does nothing more.
    monkeypatch.setattr(planned_runs, "run_command", None)
    again = suite(GLUE, SuiteOptions(overrides=TINY), Console(quiet=True))
    assert again == result
