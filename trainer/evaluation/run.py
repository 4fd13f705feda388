"""`transbeam evaluate`, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from configs.command import Invocation
from configs.errors import ConfigError
from configs.files import write_json, writing
from configs.run import RunConfig
from pipeline.held_out import make_evaluation_set, read_held_out
from pipeline.manifest import Manifest, read_manifest
from pipeline.stage import finished_data
from pipeline.tokenizers import load_tokenizer
from pipeline.tokenizers.interface import Tokenizer
from trainer.checkpoint import load_weights
from trainer.evaluation.answers import answer, writes_answers
from trainer.masking import dynamic_masking
from trainer.run import describe, evaluate_split
from trainer.stage import WEIGHTS, build_trainable, training_inputs, training_stage


@dataclass(frozen=True)
class Examined:
    """What is evaluated.

    Attributes:
        name: `validation` or `test`.
        config: What the records were made with.
        manifest: The records.
        left_out: Why documents of a test set are in no record, and how many.
    """

    name: str
    config: RunConfig
    manifest: Manifest
    left_out: Mapping[str, int] = field(default_factory=dict)


def evaluate_run(invocation: Invocation, *, on_test: bool = False) -> dict[str, Any]:
    """Evaluates the trained weights of a run and writes down what they do.

    Args:
        invocation: The command.
        on_test: On `evaluation.test` in place of the validation split.

    Returns:
        The numbers of `Evaluation`, `path` with the files, `signatures` of the text
        scores, and `left_out`, documents of a test set by the reason why they are in
        no record.

    Raises:
        UserError: There is no trained model, its files are damaged, or the test set
            cannot be read.
    """
    config, console = invocation.config, invocation.console
    made = finished_data(config, invocation.run_folder)
    stage = training_stage(invocation.run_folder)
    inputs = training_inputs(config, made["records_sha256"], stage.inputs())
    stage.require(inputs)
    data_folder = invocation.run_folder / "data"
    tokenizer = load_tokenizer(data_folder / "tokenizer")
    name = "test" if on_test else "validation"
    folder = invocation.run_folder / "evaluation" / name
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)

    # 1. The records.
    examined = (
        _test(invocation, tokenizer, folder)
        if on_test
        else Examined(name, config, read_manifest(data_folder))
    )
    examined.manifest.check_files()
    for reason, count in examined.left_out.items():
        console.warn(f"left out of the test set: {count:,} documents: {reason}")

    # 2. What the model says of them.
    model = build_trainable(config, tokenizer.vocabulary_size)
    load_weights(model, stage.path / WEIGHTS)
    masking = dynamic_masking(config, data_folder)
    evaluation = evaluate_split(examined.config, model, examined.manifest, masking)
    console.result(describe(evaluation))
    result = {"path": str(folder), "left_out": dict(examined.left_out)}

    # 3. What it writes, if that is what it is for.
    if writes_answers(config):
        held_out = read_held_out(examined.manifest, examined.config.data)
        answered = answer(config, held_out, model, tokenizer, console)
        answered.save(folder / "answers.jsonl")
        console.result(answered.describe())
        scores = {**evaluation.scores, **answered.scores}
        evaluation = replace(evaluation, scores=scores)
        result["signatures"] = dict(answered.signatures)
    result |= evaluation.as_json()
    write_json(folder / "scores.json", result)
    return result


def _test(invocation: Invocation, tokenizer: Tokenizer, folder: Path) -> Examined:
    """The records of the run's test set, made anew."""
    config = invocation.config
    if config.evaluation.test is None:
        raise ConfigError(
            "evaluation.test: is not there, and --test asks for it. Write which source "
            "it is, or give it: --set evaluation.test='{kind: ..., path: ...}'"
        )
    made = make_evaluation_set(
        config, config.evaluation.test, tokenizer, folder / "data"
    )
    return Examined("test", made.config, made.manifest, made.left_out)
