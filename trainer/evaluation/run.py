"""`transbeam evaluate`, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from configs.command import Invocation
from configs.errors import ConfigError
from configs.files import write_atomically, write_json, writing
from configs.language_modelling import CausalConfig, PrefixConfig
from configs.run import RunConfig
from pipeline.held_out import make_evaluation_set, read_held_out
from pipeline.manifest import Manifest, read_manifest
from pipeline.stage import finished_data
from pipeline.tokenizers import load_tokenizer
from pipeline.tokenizers.interface import Tokenizer
from trainer.checkpoint import load_weights
from trainer.evaluate import Evaluation, describe, told_scores
from trainer.evaluation.answers import check_libraries
from trainer.evaluation.examples import save_examples
from trainer.evaluation.findings import Findings, Subject, find_out, watchers_of
from trainer.evaluation.page import report
from trainer.evaluation.piece_bytes import bits_per_byte
from trainer.masking import dynamic_masking
from trainer.run import evaluate_split
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
    check_libraries(config)
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
        (folder / "answers.jsonl").unlink(missing_ok=True)  # of other settings

    # 1. The records.
    examined = (
        _test(invocation, tokenizer, folder)
        if on_test
        else Examined(name, config, read_manifest(data_folder))
    )
    examined.manifest.check_files()
    for reason, count in examined.left_out.items():
        console.warn(f"left out of the test set: {count:,} documents: {reason}")

    # 2. What the model says of them, and what that tells.
    held_out = read_held_out(examined.manifest, examined.config.data)
    model = build_trainable(config, tokenizer.vocabulary_size)
    load_weights(model, stage.path / WEIGHTS)
    subject = Subject(
        examined.config, examined.manifest, held_out, tokenizer, model, console
    )
    evaluation, findings = _evaluate(subject, name, data_folder)
    summary = describe(evaluation, name)
    if findings.scores:
        summary += f"; {told_scores(findings.scores)}"
    evaluation = replace(evaluation, scores={**evaluation.scores, **findings.scores})

    # 3. Written down.
    result: dict[str, Any] = {
        "summary": summary,
        "path": str(folder),
        "documents": len(held_out),
        "left_out": dict(examined.left_out),
        **evaluation.as_json(),
    }
    if findings.answered is not None:
        findings.answered.save(folder / "answers.jsonl")
        result["signatures"] = dict(findings.answered.signatures)
    save_examples(folder / "errors.jsonl", findings.examples)
    facts = _facts(examined, result, stage.path / WEIGHTS)
    title = f"{config.name} on its {name} documents"
    write_atomically(
        folder / "report.html",
        report(title, summary, facts, evaluation.scores, findings, held_out),
    )
    write_json(folder / "scores.json", result)
    console.say(f"written to {folder}: report.html, scores.json, errors.jsonl")
    return result


def _evaluate(
    subject: Subject, name: str, data_folder: Path
) -> tuple[Evaluation, Findings]:
    """The scores of the targets, and what else there is to say."""
    config, console = subject.config, subject.console
    watchers = watchers_of(config)
    more = ()
    if isinstance(config.objective, CausalConfig | PrefixConfig):
        texts = subject.held_out.texts()
        bits = bits_per_byte(config.objective, subject.tokenizer, texts)
        more = (bits,) if bits else ()
    evaluation = evaluate_split(
        config,
        subject.model,
        subject.manifest,
        dynamic_masking(config, data_folder),
        more,
        watchers,
    )
    console.result(describe(evaluation, name))
    findings = find_out(subject, watchers)
    if findings.scores:
        console.result(told_scores(findings.scores))
    return evaluation, findings


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


def _facts(
    examined: Examined, result: Mapping[str, Any], weights: Path
) -> dict[str, str]:
    """What was evaluated and how, for the report."""
    config, wanted = examined.config, examined.config.evaluation
    source = config.data.validation_source or config.data.source
    facts = {
        "documents": f"{result['documents']:,}",
        "records": f"{sum(s.records for s in examined.manifest.split('validation')):,}",
        "source": source.kind,
        "objective": config.objective.kind,
        "weights": str(weights),
        **{f"left out: {why}": f"{n:,}" for why, n in examined.left_out.items()},
    }
    if "signatures" in result:
        facts["answers written"] = wanted.method.kind
        facts |= {f"{name}": told for name, told in result["signatures"].items()}
    return facts
