"""Requirements of one section of a run on another."""

import pytest

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.yaml_config import parse_run

TEXT = "name: rules\ndata: {source: {kind: text, path: x}}\n"
IMAGES = "name: rules\ndata: {source: {kind: images, path: x}}\n"


@pytest.mark.parametrize(
    ("text", "overrides", "told"),
    [
        (
            TEXT,
            [
                "data.deduplication.near={}",
                "objective={kind: classification, labels: [a, b]}",
            ],
            "compares texts alone",
        ),
        (
            TEXT,
            [
                "data.layout={kind: bucketed, lengths: [64, 128]}",
                "objective.kind=seq2seq",
            ],
            "only with masked, causal, prefix, classification",
        ),
        (TEXT, ["data.layout={kind: bucketed, lengths: [64]}"], "is not the last of"),
        (
            TEXT,
            [
                "objective.kind=regression",
                "training={steps: 9000, label_smoothing: 0.1}",
            ],
            r"training.label_smoothing=0.1 is about the scores of classes, and "
            r"objective.kind=regression predicts a number. Remove it",
        ),
        (
            TEXT,
            ["objective.kind=pair_regression", "training={steps: 9000, z_loss: 1e-4}"],
            r"training.z_loss=0.0001 is about the scores of classes",
        ),
        (
            TEXT,
            ["objective.kind=span_qa", "data.sequence_length=64"],
            "at least 68 is needed",
        ),
        (
            TEXT,
            ["objective.kind=contrastive_pairs", "training={steps: 9, batch_size: 1}"],
            "training.batch_size=1 in training.accumulation=1 micro-batches is one "
            "pair each",
        ),
        (
            TEXT,
            [
                "objective.kind=contrastive_pairs",
                "training={steps: 9, batch_size: 8, accumulation: 8}",
            ],
            "training.batch_size=8 in training.accumulation=8 micro-batches",
        ),
        (
            TEXT,
            [
                "objective.kind=contrastive_pairs",
                "training={steps: 9, label_smoothing: 0.1}",
            ],
            "training.label_smoothing=0.1 .* predicts a vector",
        ),
        (
            TEXT,
            [
                "objective.kind=contrastive_pairs",
                "training={steps: 9, distillation: {teacher: runs/x}}",
            ],
            "training.distillation compares predictions with a teacher's",
        ),
        (
            IMAGES,
            [
                "objective={kind: image_classification, labels: [a, b]}",
                "data.source.image_size=32",
            ],
            "data.source: image_size=32 is not objective.image_size=224",
        ),
        (
            IMAGES,
            [
                "objective={kind: image_classification, labels: [a, b]}",
                "data.validation_source={kind: images, path: y, image_size: 32}",
            ],
            "data.validation_source: image_size=32 is not objective.image_size=224",
        ),
        (
            IMAGES,
            [
                "objective={kind: image_classification, labels: [a, b]}",
                "data.source={kind: mixture, parts: [{source: "
                "{kind: images, path: y, image_size: 32}}]}",
            ],
            "data.source: image_size=32 is not objective.image_size=224",
        ),
        (
            TEXT,
            [
                "data.validation_source={kind: mixture, parts: ["
                "{source: {kind: text, path: y}},"
                "{source: {kind: text, path: z}, weight: 2}]}"
            ],
            r"validation_source: part 1 has weight=2.0, but a weight says how often",
        ),
        (
            TEXT,
            ["data.validation_source.path=y"],
            r"data.validation_source.kind: this required key is missing. Known here",
        ),
    ],
)
def test_refused(text: str, overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_run(text, "run.yaml", overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["objective.kind=causal", "data.deduplication.near={}"],
        ["data.layout={kind: bucketed, lengths: [64, 128]}"],
        [
            "objective.kind=regression",
            "data.layout={kind: bucketed, lengths: [64, 128]}",
        ],
        ["objective.kind=span_qa", "data.sequence_length=68"],
        [
            "objective.kind=contrastive_pairs",
            "training={steps: 9, batch_size: 8, accumulation: 4}",
            "data.layout={kind: bucketed, lengths: [64, 128]}",
        ],
        ["data.validation_source={kind: jsonl, path: y}"],
        ["data.validation_source="],
    ],
)
def test_allowed(overrides: list[str]) -> None:
    parse_run(TEXT, "run.yaml", overrides)
