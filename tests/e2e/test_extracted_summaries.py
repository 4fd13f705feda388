"""Summaries by extraction: trained with free texts, scored as texts."""

import json
import random
from pathlib import Path

import pytest
from rouge_score.rouge_scorer import RougeScorer

from tests.small_run import WORDS
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.pipeline.stage import data
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.run import train

YAML = """
name: summaries
data:
  source:
    kind: jsonl
    path: FOLDER/train.jsonl
    columns: {text: sentences, second_text: title, target_text: summary.0}
  validation_source:
    kind: jsonl
    path: FOLDER/dev.jsonl
    columns:
      {text: sentences, second_text: title, target_text: summary.0, references: summary}
  sequence_length: 64
tokenizer: {kind: wordpiece, vocabulary_size: 100}
objective: {kind: span_qa, max_question_length: 8}
model:
  kind: encoder
  num_layers: 1
  hidden_dim: 16
  num_segments: 2
  attention: {num_heads: 2}
  feedforward: {intermediate_dim: 32}
training: {steps: 2, batch_size: 4, schedule: {warmup_steps: 1}}
evaluation: {text_scores: [rouge], max_answer_length: 12}
"""


def papers(count: int, seed: int) -> list[dict[str, object]]:
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        sentences = [" ".join(draw.choices(WORDS, k=6)) for _ in range(4)]
        words = sentences[2].split()
        summaries = [" ".join(words[:4]) + " indeed", " ".join(words[3:])]
        made.append({"title": words[0], "sentences": sentences, "summary": summaries})
    return made


def test_a_summary_is_a_part_of_its_text(tmp_path: Path) -> None:
    for name, count in (("train", 20), ("dev", 7)):
        lines = map(json.dumps, papers(count, seed=count))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    file = tmp_path / "run.yaml"
    file.write_text(YAML.replace("FOLDER", str(tmp_path)), "utf-8")
    run = Invocation(
        config=load_run(file),
        config_file=file,
        overrides=(),
        run_folder=tmp_path / "run",
        console=Console(quiet=True),
        workers=1,
    )
    data(run)
    train(run)
    result = evaluate_run(run)

    rows = (run.run_folder / "evaluation/validation/answers.jsonl").read_text("utf-8")
    answers = [json.loads(row) for row in rows.splitlines()]
    assert len(answers) == 7
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    sums = dict.fromkeys(scorer.rouge_types, 0.0)
    for row in answers:
        assert row["answer"]
        assert row["answer"] in row["text"]
        assert len(row["references"]) == 2
        scores = scorer.score_multi(row["references"], row["answer"])
        for name, score in scores.items():
            sums[name] += score.fmeasure
    scores = {name: found["score"] for name, found in result["scores"].items()}
    for name, total in sums.items():
        assert scores[name] == pytest.approx(total / 7)
    assert {"exact_match", "f1"} <= scores.keys()
    assert result["answers"] == {"documents": 7}
