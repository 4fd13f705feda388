"""Each file of `configs/tasks/`, small: data in the form and place that it says.

What differs from the file is in `SMALLER`, and what a model that is brought in would
give (`runs/minilm`) is a run of the same kind.
"""

import gzip
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.finished_runs import runs_before_tasks, trained_run
from tests.small_run import WORDS
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.calibration_file import (
    read_calibration,
    run_calibration,
)
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    TokenChoiceObjective,
)
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.stage import data
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.run import train

TASKS = Path(__file__).parents[2] / "configs/tasks"
SMALLER = (
    "model.num_layers=1",
    "model.hidden_dim=16",
    "model.attention.num_heads=2",
    "model.feedforward.intermediate_dim=32",
    "training.steps=4",
    "training.batch_size=4",
    "training.schedule.warmup_steps=1",
    "training.evaluate_every=2",
)
TAGS = ("NOUN", "VERB", "DET")
LABELS_OF_RTE = {
    "rte1": ("value", "FALSE", "TRUE"),
    "rte2": ("entailment", "NO", "YES"),
}
ENTITIES = ("O", "O", "B-person", "I-person")


def sentences(count: int, seed: int) -> list[list[str]]:
    chance = random.Random(seed)
    return [chance.choices(WORDS, k=chance.randint(4, 12)) for _ in range(count)]


def write(path: str, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode()
    Path(path).write_bytes(gzip.compress(raw) if path.endswith(".gz") else raw)


def translations() -> None:
    for seed, name in enumerate(("train", "val", "test_2016_flickr")):
        pairs = sentences(40 if name == "train" else 8, seed)
        write(f"corpus/multi30k/{name}.en.gz", map(" ".join, pairs))
        write(f"corpus/multi30k/{name}.de.gz", (" ".join(reversed(p)) for p in pairs))


def reviews() -> None:
    for seed, name in enumerate(("train", "dev", "test")):
        rows = enumerate(sentences(40 if name == "train" else 8, seed))
        write(
            f"corpus/sst2/{name}.tsv.gz",
            (f"{' '.join(words)}\t{number % 2}" for number, words in rows),
        )


def news() -> None:
    rows = enumerate(sentences(60, 0))
    write(
        "corpus/ag_news/dev_pool.csv.gz",
        (f'"{n % 4 + 1}","{" ".join(x[:3])}","{" ".join(x)}, {n}"' for n, x in rows),
    )


def stories() -> None:
    news()
    trees()
    pairs = zip(sentences(20, 1), sentences(20, 2), strict=True)
    write(
        "corpus/mrpc/msr_paraphrase_train.txt.gz",
        [
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            *(f"1\t2\t3\t{' '.join(a)}\t{' '.join(b)}" for a, b in pairs),
        ],
    )
    write("corpus/wikitext-2/valid.txt.gz", map(" ".join, sentences(20, 3)))
    write("corpus/rte/rte1_dev.xml.gz", map(" ".join, sentences(20, 4)))
    Path("corpus/gov_speeches").mkdir()
    with zipfile.ZipFile("corpus/gov_speeches/inaugural.zip", "w") as archive:
        archive.writestr("inaugural/1789.txt", "\n\n".join(WORDS))


def entailment() -> None:
    for seed, name in enumerate(("rte1_dev", "rte1_test", "rte2_dev", "rte2_test")):
        pairs = zip(sentences(20, seed), sentences(20, seed + 9), strict=True)
        key, *values = LABELS_OF_RTE[name[:4]]
        lines = (
            f'<pair id="{n}" {key}="{values[n % 2]}">\n<t>{" ".join(a)}</t>\n'
            f"<h>{' '.join(b)}</h>\n</pair>"
            for n, (a, b) in enumerate(pairs)
        )
        write(f"corpus/rte/{name}.xml.gz", ["<corpus>", *lines, "</corpus>"])


def paraphrases() -> None:
    for seed, name in enumerate(("train", "test")):
        pairs = zip(sentences(60, seed), sentences(60, seed + 9), strict=True)
        write(
            f"corpus/mrpc/msr_paraphrase_{name}.txt.gz",
            [
                "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
                *(
                    f"{n % 2}\t2\t3\t{' '.join(a)}\t{' '.join(b)}"
                    for n, (a, b) in enumerate(pairs)
                ),
            ],
        )


def all_pairs() -> None:
    entailment()
    paraphrases()


def questions() -> None:
    articles = []
    for number, words in enumerate(sentences(40, 0)):
        answer = {"text": words[1], "answer_start": len(words[0]) + 1}
        question = {"question": f"What is after {words[0]}?", "answers": [answer]}
        paragraph = {"context": " ".join(words), "qas": [question]}
        articles.append({"title": f"t{number}", "paragraphs": [paragraph]})
    write("corpus/xquad/xquad.en.json.gz", [json.dumps({"data": articles})])


def papers() -> None:
    for seed, name in enumerate(("train", "dev")):
        rows = zip(sentences(40, seed), sentences(40, seed + 9), strict=True)
        lines = (
            {
                "title": a[0],
                "source": [" ".join(a), " ".join(b)],
                "target": [a[0], " ".join(b[:2])],
            }
            for a, b in rows
        )
        write(f"corpus/scitldr/{name}.jsonl.gz", map(json.dumps, lines))


def all_four() -> None:
    reviews()
    news()
    all_pairs()


def tagged(words: list[str], tags: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    return [(word, tags[len(word) % len(tags)]) for word in words]


def posts() -> None:
    names = ("wnut17train.conll.gz", "emerging.dev.conll.gz")
    for seed, name in enumerate((*names, "emerging.test.annotated.gz")):
        found = (tagged(words, ENTITIES) for words in sentences(30, seed))
        lines = ([f"{w}\t{t}" for w, t in sentence] + [""] for sentence in found)
        write(f"corpus/wnut17/{name}", (line for block in lines for line in block))


def trees() -> None:
    rest = "\t_" * 6
    for seed, name in enumerate(("train", "dev", "test")):
        found = (tagged(words, TAGS) for words in sentences(40, seed))
        lines = (
            [f"{n}\t{w}\t{w}\t{t}{rest}" for n, (w, t) in enumerate(sentence, 1)] + [""]
            for sentence in found
        )
        path = f"corpus/ewt/en_ewt-ud-{name}.conllu.gz"
        write(path, (line for block in lines for line in block))


def plays() -> None:
    for seed, name in enumerate(("train", "validation")):
        lines = map(" ".join, sentences(200, seed))
        write(f"corpus/tinyshakespeare/{name}.txt", lines)


def digits() -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), np.uint8)
    Path("corpus").mkdir()
    np.savez("corpus/digits.npz", images=images, labels=np.arange(60) % 10)


def nothing() -> None:
    """The packages are there."""


ONE_LENGTH = "data.layout={kind: bucketed, lengths: [64]}"
ONE_OF_128 = "data.layout={kind: bucketed, lengths: [128]}"
SMALL_WORDS = "tokenizer={kind: wordpiece, vocabulary_size: 100}"
SMALL_BYTES = "tokenizer={kind: byte_bpe, vocabulary_size: 270, specials: roberta}"
NOT_BROUGHT_IN = (SMALL_WORDS, "model.init_from=null")
BEGUN_WITH_AN_ENCODER = (
    SMALL_WORDS,
    "model={kind: seq2seq, num_layers: 1, hidden_dim: 16, max_sequence_length: 256, "
    "attention: {num_heads: 2}, feedforward: {intermediate_dim: 32}}",
)
BEAM = "evaluation.max_new_tokens=4"
# By file: what writes its data, what else is smaller, and whether there is a test set.
TWINS: dict[str, tuple[Callable[[], None], tuple[str, ...], bool]] = {
    "ag_news": (stories, ("data.layout.lengths=[128]",), False),
    "ag_news_minilm": (news, (*NOT_BROUGHT_IN, ONE_OF_128), True),
    "ag_news_pretraining": (stories, ("tokenizer.vocabulary_size=180",), False),
    "digits": (digits, (), False),
    "ewt_pretraining": (
        trees,
        (
            "tokenizer.vocabulary_size=200",
            "data.source.parts.1.source.packages=[yaml]",
        ),
        False,
    ),
    "ewt_upos": (
        trees,
        ("data.layout.lengths=[32, 64]", "data.sequence_length=64"),
        True,
    ),
    "ewt_upos_minilm": (trees, (*NOT_BROUGHT_IN, ONE_OF_128), True),
    "four_tasks": (all_four, (*BEGUN_WITH_AN_ENCODER, BEAM), True),
    "mrpc": (paraphrases, (*NOT_BROUGHT_IN, ONE_OF_128), True),
    "mrpc_vectors": (
        paraphrases,
        (*NOT_BROUGHT_IN, ONE_LENGTH, "training.batch_size=8"),
        False,
    ),
    "multi30k_de_en": (translations, (SMALL_BYTES, BEAM), True),
    "multi30k_en_de": (translations, (SMALL_BYTES, BEAM), True),
    "python_summaries": (
        nothing,
        (SMALL_BYTES, BEAM, "data.source.packages=[yaml]"),
        False,
    ),
    "rte": (all_pairs, (*NOT_BROUGHT_IN, ONE_OF_128), True),
    "scitldr": (
        papers,
        (*NOT_BROUGHT_IN, "data.sequence_length=72", "objective.stride=24"),
        True,
    ),
    "sst2": (reviews, (*NOT_BROUGHT_IN, ONE_LENGTH, "model.num_layers=2"), True),
    "sst2_born_again": (
        reviews,
        (*NOT_BROUGHT_IN, ONE_LENGTH, "model.num_layers=2"),
        True,
    ),
    # The teacher's twin begins with no imported model, and has no segments.
    "sst2_student": (
        reviews,
        (SMALL_WORDS, ONE_LENGTH, "model.num_segments=0"),
        True,
    ),
    "tinyshakespeare": (plays, (), False),
    "xquad_completion": (questions, ("tokenizer.vocabulary_size=270", BEAM), True),
    "xquad_text_to_text": (questions, (*BEGUN_WITH_AN_ENCODER, BEAM), True),
    "xquad": (
        questions,
        (*NOT_BROUGHT_IN, "data.sequence_length=72", "objective.stride=24"),
        True,
    ),
    "wnut17": (posts, NOT_BROUGHT_IN, True),
}
# What a file begins with or learns from.
BEFORE = {
    "ag_news": "ag_news_pretraining",
    "ewt_upos": "ewt_pretraining",
    "sst2_born_again": "sst2",
    "sst2_student": "sst2_born_again",
}
# What comes before another is trained with it; the others are like one that is quick.
SLOW = {
    "ag_news",
    "ag_news_minilm",
    "ag_news_pretraining",
    "ewt_pretraining",
    "ewt_upos",
    "ewt_upos_minilm",
    "four_tasks",
    "mrpc",
    "mrpc_vectors",
    "multi30k_de_en",
    "multi30k_en_de",
    "python_summaries",
    "rte",
    "scitldr",
    "sst2",
    "sst2_born_again",
    "sst2_student",
    "tinyshakespeare",
    "wnut17",
    "xquad",
    "xquad_completion",
    "xquad_text_to_text",
}
THOROUGH = pytest.mark.thorough(
    instead="test_twin, test_every_file_is_right, "
    "test_answers_to_every_validation_text_and_those_of_an_export"
)


def run(name: str, *overrides: str) -> Invocation:
    file = TASKS / f"{name}.yaml"
    keys = (*SMALLER, *TWINS[name][1], *overrides)
    config = load_run(file, keys, with_model=True)
    return Invocation(
        config=config,
        config_file=file,
        overrides=keys,
        run_folder=Path("runs") / config.name,
        console=Console(quiet=True),
        workers=1,
    )


def with_all_before(name: str) -> list[str]:
    return [*(with_all_before(BEFORE[name]) if name in BEFORE else []), name]


def test_every_file_has_a_twin() -> None:
    assert {path.stem for path in TASKS.glob("*.yaml")} == set(TWINS)


@pytest.mark.parametrize("name", TWINS)
def test_every_file_is_right(name: str, tmp_path: Path, monkeypatch) -> None:
    """Its keys are known and go with each other, of the twin and as they stand."""
    monkeypatch.chdir(tmp_path)
    for before in with_all_before(name)[:-1]:
        twin = run(before)
        trained_run(twin.run_folder, twin.config)
    assert run(name).config.training.steps == 4
    shutil.rmtree("runs", ignore_errors=True)
    runs_before_tasks(Path("runs"))
    assert contract(load_run(TASKS / f"{name}.yaml", with_model=True))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=THOROUGH if name in SLOW else ()) for name in TWINS],
)
def test_twin(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_data, _, has_test = TWINS[name]
    write_data()
    for each in with_all_before(name):
        invocation = run(each)
        data(invocation)
        result = train(invocation)
    assert result["steps"] == 4
    assert result["skipped_steps"] == 0
    evaluation = evaluate_run(invocation, on_test=has_test)
    assert np.isfinite(evaluation["loss"])
    if isinstance(invocation.config.objective, ChoiceObjective | TokenChoiceObjective):
        counts = np.array(evaluation["confusions"]["counts"])
        assert counts.sum() == evaluation["predictions"]
        accuracy = evaluation["scores"]["accuracy"]["score"]
        assert np.isclose(counts.trace() / counts.sum(), accuracy)
        assert 0 <= evaluation["scores"]["calibration_error"]["score"] <= 1
        bins = evaluation["calibration"]["bins"]["before"]
        assert sum(row["count"] for row in bins) == evaluation["predictions"]
        if not has_test:
            fitted = read_calibration(run_calibration(invocation.run_folder), "")
            assert fitted is not None
            assert fitted.temperature == evaluation["calibration"]["temperature"]
    scores = yaml.safe_load((TASKS / f"{name}.yaml").read_text("utf-8"))
    for score in scores.get("evaluation", {}).get("text_scores", ()):
        assert any(found.startswith(score) for found in evaluation["scores"]), score
