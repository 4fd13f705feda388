"""`transbeam evaluate`, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import plain
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.calibration_file import (
    run_calibration,
    write_calibration,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.reading_summary import (
    not_read,
    show_reading,
    unread_named,
)
from transbeam.pipeline.evaluation_set import (
    make_evaluation_set,
    read_validation_documents,
)
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.calibration.class_logits import (
    calibrated_outputs,
    collect_logits,
)
from transbeam.trainer.evaluation.bits_per_byte import bits_per_byte
from transbeam.trainer.evaluation.calibration_findings import (
    CalibrationFindings,
    find_calibration,
)
from transbeam.trainer.evaluation.calibration_plan import (
    CalibrationPlan,
    plan_calibration,
    plan_for_export,
)
from transbeam.trainer.evaluation.comparison import compare, records_sha256
from transbeam.trainer.evaluation.error_analysis import (
    ErrorAnalysis,
    analyze_errors,
    make_collectors,
)
from transbeam.trainer.evaluation.evaluate_export import build_exported, find_export
from transbeam.trainer.evaluation.evaluation_context import EvaluationContext
from transbeam.trainer.evaluation.evaluation_loop import (
    Evaluation,
    Forward,
    describe,
    evaluate_split,
    format_scores,
)
from transbeam.trainer.evaluation.examples import save_examples
from transbeam.trainer.evaluation.generation_eval import (
    check_libraries,
    writes_answers,
)
from transbeam.trainer.evaluation.html_report import report
from transbeam.trainer.evaluation.run_model import RunModel, find_run_model
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.step.build import build_evaluation


@dataclass(frozen=True)
class EvaluationSplit:
    """The records of an evaluation.

    Attributes:
        name: `validation` or `test`.
        config: The configuration with which the records were made.
        manifest: The records.
        left_out: Number of documents of a test set that are in no record, by reason.
        reading: Incomplete files, notes, detected encodings and dropped text of a test
            set; see `transbeam.pipeline.accounting.reading_summary.sum_reading`.
    """

    name: str
    config: RunConfig
    manifest: Manifest
    left_out: Mapping[str, int] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measured_on(self) -> str:
        """The split's name in results: `training` if nothing is held out."""
        is_training = self.name == "validation" and not self.manifest.has_validation
        return "training" if is_training else self.name


def evaluate_run(
    invocation: Invocation, *, on_test: bool = False, model: Path | None = None
) -> dict[str, Any]:
    """Evaluates the model of a run, or an export, and writes scores and a report.

    Args:
        invocation: The command.
        on_test: If true, evaluates on `evaluation.test` instead of the validation
            split.
        model: An exported model to evaluate instead of the run's own: a SavedModel's
            folder or a TFLite file.

    Returns:
        The numbers of `Evaluation`; `path`, the folder of the files; `model`, the
        evaluated model; `signatures` of the text scores; `answers`, with the number of
        documents for which texts were generated and the method; `scores_by_part`,
        with those of each named part of a mixture; and `left_out`, the
        number of a test set's documents that are in no record, by reason. For a test
        set also `unread` bytes and files, `noted`, `encodings` and
        `dropped_in_sentences`. For models with classes `calibration`, and for label
        sets and questions `thresholds`, both with scores before and after. For an
        export also `run_scores`, the scores of the run's own model on the same records,
        and `differences` from them; both are None if that model has not been evaluated.

    Raises:
        UserError: The model is missing, damaged or cannot be evaluated, or the test set
            cannot be read.
    """
    config, console = invocation.config, invocation.console
    check_libraries(config)
    run_model = find_run_model(invocation, on_test=on_test)
    tokenizer = run_model.tokenizer()
    name = "test" if on_test else "validation"
    evaluations = invocation.run_folder / "evaluation"
    folder, exported = evaluations / name, None
    if model is not None:
        model = find_export(model)
        exported = build_exported(model, config, tokenizer.vocabulary_size)
        folder = evaluations / _folder_name(model) / name
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)

    # 1. The records.
    evaluated = (
        _test(invocation, tokenizer, folder)
        if on_test
        else EvaluationSplit(name, config, read_manifest(run_model.texts))
    )
    evaluated.manifest.check_files()
    if not evaluated.manifest.has_validation:
        console.warn(
            "there are no validation records: the metrics are those of training "
            "records, not of new text"
        )
    for reason, count in evaluated.left_out.items():
        console.warn(f"left out of the test set: {count:,} documents: {reason}")
    show_reading(console, evaluated.reading)

    # 2. Predictions and scores.
    held_out = read_validation_documents(evaluated.manifest, evaluated.config.data)
    context = EvaluationContext(
        evaluated.config,
        evaluated.manifest,
        held_out,
        tokenizer,
        None if exported else run_model.load(tokenizer.vocabulary_size),
        console,
        model,
    )
    if model is not None:
        plan = plan_for_export(model)
    else:
        plan = plan_calibration(
            invocation,
            run_model,
            on_test=on_test,
            has_validation=evaluated.manifest.has_validation,
        )
    evaluation, analysis, calibration, summary = _evaluate(
        context, exported, evaluated, run_model, plan
    )

    # 3. Files of the evaluation.
    result: dict[str, Any] = {
        "summary": summary,
        "path": str(folder),
        "model": str(model or run_model.weights),
        "made_from": {
            "records": records_sha256(evaluated.manifest),
            "training": run_model.fingerprint,
        },
        "documents": len(held_out),
        "left_out": dict(evaluated.left_out),
        **evaluated.reading,
        **evaluation.as_json(),
        **calibration.as_json(),
    }
    comparison = None
    if exported:
        comparison = compare(evaluations / name, result)
        console.result(str(comparison or _no_comparison(invocation, name)))
        result["run_scores"] = comparison.run_scores if comparison else None
        result["differences"] = comparison.differences if comparison else None
    (folder / "answers.jsonl").unlink(missing_ok=True)  # from earlier settings
    if analysis.answered is not None:
        analysis.answered.save(folder / "answers.jsonl")
    result |= _analysis_json(analysis, config)
    save_examples(folder / "errors.jsonl", analysis.examples)
    page = report(
        _title(evaluated, result),
        summary,
        _facts(evaluated, result),
        evaluation.scores,
        analysis,
        held_out,
        comparison,
        calibration,
    )
    write_atomically(folder / "report.html", page)
    write_json(folder / "scores.json", result)
    if plan.fits:
        records = result["made_from"]["records"]
        fitted = calibration.fitted(run_model.weights, records)
        if fitted is not None:
            write_calibration(run_calibration(invocation.run_folder), fitted)
    answers = ", answers.jsonl" if analysis.answered is not None else ""
    console.say(f"written to {folder}: report.html, scores.json, errors.jsonl{answers}")
    return result


def _analysis_json(analysis: ErrorAnalysis, config: RunConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if analysis.answered is not None:
        found["signatures"] = dict(analysis.answered.signatures)
        found["answers"] = {"documents": len(analysis.answered.answers)}
        if writes_answers(config):
            found["answers"]["method"] = plain(config.evaluation.method)
    if analysis.parts:
        found["scores_by_part"] = {n: of.as_json() for n, of in analysis.parts.items()}
    if analysis.confusions is not None:
        found["confusions"] = analysis.confusions.as_json()
    return found


def _folder_name(model: Path) -> str:
    """The folder name of an export's evaluations, from the end of its path.

    Example:
    >>> _folder_name(Path("export/saved_model/2"))
    'of-saved_model-2'
    >>> _folder_name(Path("export/tflite/model_float32.tflite"))
    'of-model_float32'
    """
    model = model.absolute()
    is_version = model.name.isdecimal()
    return f"of-{model.parent.name}-{model.name}" if is_version else f"of-{model.stem}"


def _evaluate(
    context: EvaluationContext,
    exported: Forward | None,
    evaluated: EvaluationSplit,
    run_model: RunModel,
    plan: CalibrationPlan,
) -> tuple[Evaluation, ErrorAnalysis, CalibrationFindings, str]:
    """Computes metrics, error analysis and calibration, and summarizes them as text."""
    config, console = context.config, context.console
    collectors, logits = make_collectors(config), collect_logits(config.objective)
    loss = make_loss(config, calibrated_outputs(config.objective))
    bits = None
    if isinstance(config.objective, CausalConfig | PrefixConfig):
        texts = context.held_out.texts()
        bits = bits_per_byte(config.objective, context.tokenizer, texts)
    evaluation = evaluate_split(
        config,
        exported or build_evaluation(context.model, loss),
        context.manifest,
        dynamic_masking(config, run_model.texts),
        (bits,) if bits else (),
        (*collectors, logits) if logits else collectors,
    )
    summary = describe(evaluation, evaluated.measured_on)
    unread = not_read(evaluated.reading)
    console.result(summary + unread)
    analysis = analyze_errors(context, collectors)
    if analysis.scores:
        scores = format_scores(analysis.scores)
        if analysis.answered and len(analysis.answered.answers) < len(context.held_out):
            scores += f" of the first {len(analysis.answered.answers):,} documents"
        console.result(scores)
        for name, part in analysis.parts.items():
            numbers = f"{format_scores(part.scores)} of {part.texts:,} documents"
            console.result(f"  {name}: {numbers}")
        summary += f"; {scores}"
    calibration = find_calibration(config, plan, logits, analysis.answers)
    for line in calibration.lines():
        console.result(line)
        summary += f"; {line}"
    if calibration.note:
        console.say(calibration.note)
    scores = {**evaluation.scores, **analysis.scores, **calibration.scores()}
    evaluation = replace(evaluation, scores=scores)
    return evaluation, analysis, calibration, summary + unread


def _test(
    invocation: Invocation, tokenizer: Tokenizer, folder: Path
) -> EvaluationSplit:
    """Makes the records of the run's test set."""
    config = invocation.config
    if config.evaluation.test is None:
        raise ConfigError(
            "evaluation.test: is not there, and --test needs it. Write which source "
            "it is, or give it: --set evaluation.test='{kind: ..., path: ...}'"
        )
    made = make_evaluation_set(
        config, config.evaluation.test, tokenizer, folder / "data"
    )
    return EvaluationSplit(
        "test", made.config, made.manifest, made.left_out, made.reading
    )


def _no_comparison(invocation: Invocation, name: str) -> str:
    test = " --test" if name == "test" else ""
    return (
        "the run's own scores of these records are not there to compare with; to have "
        f"them, do this first: {invocation.command('evaluate')}{test}"
    )


def _title(evaluated: EvaluationSplit, result: Mapping[str, Any]) -> str:
    name = evaluated.config.name
    of = f"{Path(result['model']).name} of {name}" if "differences" in result else name
    return f"{of} on its {evaluated.measured_on} documents"


def _facts(evaluated: EvaluationSplit, result: Mapping[str, Any]) -> dict[str, str]:
    """Describes the evaluated model, records and settings, for the report."""
    config = evaluated.config
    source = config.data.validation_source or config.data.source
    records = sum(s.records for s in evaluated.manifest.split("validation"))
    facts = {
        "documents": f"{result['documents']:,}",
        "records": f"{records:,}",
        "source": source.kind,
        "objective": config.objective.kind,
        "model": result["model"],
        **{f"left out: {why}": f"{n:,}" for why, n in evaluated.left_out.items()},
    }
    if unread := unread_named(evaluated.reading):
        facts["not read"] = unread
    if "signatures" in result:
        written = result["answers"]["documents"]
        facts["answers written"] = f"to {written:,} of {result['documents']:,}"
        if method := result["answers"].get("method"):
            facts["method"] = ", ".join(f"{key}={x}" for key, x in method.items())
        facts |= {f"{name}": value for name, value in result["signatures"].items()}
    return facts
