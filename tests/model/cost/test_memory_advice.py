"""Advice on whether a training fits into memory, and on what makes it fit."""

import json
from dataclasses import replace

from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.optimizers import AdafactorConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.configs.system.memory import RUNTIME, Memory, find_memory
from transbeam.model.__main__ import main
from transbeam.model.cost.memory_advice import advice, training_need
from transbeam.model.cost.report import count_cost

RUN = RunConfig(
    name="gpt",
    data=DataConfig(source=TextSourceConfig(path="corpus.txt"), sequence_length=512),
    objective=CausalConfig(),
    model=DecoderConfig(),
    training=TrainingConfig(steps=100, batch_size=12),
)


def with_keys(**keys) -> RunConfig:
    return replace(RUN, training=replace(RUN.training, **keys))


def test_each_way_takes_less() -> None:
    need = training_need(RUN)
    assert training_need(with_keys(accumulation=12)) < 0.3 * need
    assert training_need(with_keys(rematerialize=True)) < need
    assert training_need(with_keys(ema_decay=0.9)) > need


def test_the_fewest_micro_batches_that_fit_are_named() -> None:
    there = Memory("a card", training_need(with_keys(accumulation=4)))
    told = advice(RUN, there)
    assert "on a card. One of these is enough:\n  training.accumulation=4: " in told
    assert "optimizer" not in told  # saves too little
    there = Memory("a toy", 1_000_000)
    told = advice(RUN, there)
    assert "No one of these is enough alone:\n  training.accumulation=12: " in told
    assert "training.optimizer={kind: adafactor}: " in told


def test_replicas_share_the_batch() -> None:
    assert training_need(RUN, replicas=4) == training_need(with_keys(batch_size=3))
    there = Memory("a card", training_need(with_keys(batch_size=3, accumulation=3)))
    told = advice(RUN, there, replicas=4)
    assert "enough:\n  training.accumulation=3: " in told


def test_pairs_are_several_sequences_and_are_never_alone_in_a_micro_batch() -> None:
    run = replace(
        RUN,
        objective=ContrastivePairsConfig(hard_negatives=True),
        model=EncoderConfig(),
        training=TrainingConfig(steps=100, batch_size=8),
    )
    pairs = replace(run, objective=ContrastivePairsConfig())
    assert count_cost(run)["batch_size"] == 24
    assert training_need(pairs) < training_need(run) < 1.5 * training_need(pairs)
    told = advice(run, Memory("a toy", 1_000_000))
    assert "  training.accumulation=4: " in told
    assert "  training.accumulation=2: " in advice(run, Memory("a toy", 1_000_000), 2)


def test_where_nothing_helps_it_says_so() -> None:
    least = with_keys(
        batch_size=1,
        rematerialize=True,
        precision="mixed_bfloat16",
        optimizer=AdafactorConfig(),
    )
    told = advice(least, Memory("a toy", 1_000))
    assert told.endswith("Make the model smaller, or the records shorter")


def test_check_says_what_is_needed_and_warns(tmp_path, capsys, monkeypatch) -> None:
    found = find_memory()
    assert found is None or found.size > 1_000_000
    monkeypatch.setattr(
        "transbeam.model.__main__.find_memory", lambda: Memory("a toy", 1_000)
    )
    assert main(["check", "configs/demo.yaml"]) == 0
    out, err = capsys.readouterr()
    assert "  memory     about 0." in out
    assert "1.5 GB more for TensorFlow itself" in out
    assert "GB on a toy beside the 1.5 GB of TensorFlow itself." in err
    monkeypatch.setattr("transbeam.model.__main__.find_memory", lambda: None)
    assert main(["check", "configs/demo.yaml"]) == 0
    assert "on a toy" not in capsys.readouterr().err


def test_check_counts_what_tensorflow_itself_takes(capsys, monkeypatch) -> None:
    need = training_need(load_run("configs/demo.yaml", with_model=True))
    for room, fits in ((need, True), (need - 1, False)):
        found = Memory("this machine", room + RUNTIME)
        monkeypatch.setattr("transbeam.model.__main__.find_memory", lambda: found)  # noqa: B023
        assert main(["check", "configs/demo.yaml", "--json"]) == 0
        out, err = capsys.readouterr()
        memory = json.loads(out)["memory"]
        assert memory["training"] == need
        assert memory["found"]["size"] == room + RUNTIME
        assert ("training takes about" not in err) == fits
    card = Memory("a card", need, is_shared=False)
    monkeypatch.setattr("transbeam.model.__main__.find_memory", lambda: card)
    assert main(["check", "configs/demo.yaml"]) == 0
    assert "training takes about" not in capsys.readouterr().err


def test_a_teacher_is_counted_as_soon_as_its_run_is_there(tmp_path) -> None:
    distillation = f"training.distillation={{teacher: {tmp_path}}}"
    run = load_run("configs/demo.yaml", [distillation])
    assert count_cost(run)["memory"]["training"]["teacher"] == 0
    (tmp_path / "training").mkdir()
    (tmp_path / "training/run.yaml").write_text(dump_run(load_run("configs/demo.yaml")))
    cost = count_cost(run)
    weights = cost["parameters"]["total_with_heads"]
    assert cost["memory"]["training"]["teacher"] == 4 * weights
