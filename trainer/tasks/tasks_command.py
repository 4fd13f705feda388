"""`transbeam evaluate --tasks`, step by step."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, write_json, writing
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.task_file import load_task_file
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    DialogueConfig,
    Seq2SeqConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.task_file import (
    ChoiceTaskConfig,
    GenerationTaskConfig,
    PerplexityTaskConfig,
    TaskFileConfig,
)
from transbeam.trainer.evaluation.generation_eval import build_unpacked, signatures
from transbeam.trainer.evaluation.run_model import find_run_model
from transbeam.trainer.tasks.choice_task import evaluate_choices
from transbeam.trainer.tasks.continuation_scorer import ContinuationScorer
from transbeam.trainer.tasks.generation_task import evaluate_generation
from transbeam.trainer.tasks.perplexity_task import evaluate_perplexity
from transbeam.trainer.tasks.task_results import TaskContext, TaskResult
from transbeam.trainer.tasks.tasks_page import (
    format_first_score,
    format_table,
    tasks_page,
)

_DECODERS = CausalConfig | PrefixConfig | CompletionConfig | DialogueConfig
_ENCODER_DECODERS = Seq2SeqConfig | TextToTextConfig
_KINDS = "causal, prefix, completion, dialogue, seq2seq or text_to_text"


def evaluate_tasks(invocation: Invocation, file: Path) -> dict[str, Any]:
    """Evaluates the model of a run on the tasks of a file, without training.

    Args:
        invocation: The command.
        file: The file of the tasks.

    Returns:
        `summary`, the table as text; `path`, the folder of the files; `model`, the
        weights; `results`, one entry for each task and number of shots.

    Raises:
        UserError: The file is invalid, a source cannot be read, or the model is
            missing, damaged or does not answer in words.
    """
    config, console = invocation.config, invocation.console
    tasks = load_task_file(file)
    _check_objective(config, tasks)
    _check_libraries(tasks)
    run_model = find_run_model(invocation, on_test=True)
    tokenizer = run_model.tokenizer()
    trained = run_model.load(tokenizer.vocabulary_size)
    model = build_unpacked(config, trained, tokenizer.vocabulary_size)
    context = TaskContext(config, model, tokenizer, console, tasks.seed, tasks.limit)
    folder = invocation.run_folder / "evaluation" / "tasks" / tasks.name
    results: list[TaskResult] = []
    for result in _evaluate(context, tasks):
        console.say(format_first_score(result))
        for note, count in result.notes.items():
            console.say(f"  {count:,} {note}")
        results.append(result)
    _say_left_out(console, results)
    summary = format_table(results)
    console.result(summary)
    with writing(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    found = {
        "summary": summary,
        "path": str(folder),
        "model": str(run_model.weights),
        "made_from": {"training": run_model.fingerprint},
        "seed": tasks.seed,
        "results": [result.as_json() for result in results],
    }
    for result in results:
        lines = [json.dumps(row, ensure_ascii=False) for row in result.answers]
        write_atomically(
            folder / _answers_file(result), "".join(f"{line}\n" for line in lines)
        )
    write_atomically(folder / "report.html", tasks_page(config.name, tasks, results))
    write_json(folder / "scores.json", found)
    console.say(f"written to {folder}: report.html, scores.json, and the answers")
    return found


def _evaluate(context: TaskContext, tasks: TaskFileConfig) -> Iterator[TaskResult]:
    begin = context.tokenizer.special.decoder_begin if context.has_encoder else None
    scorer = ContinuationScorer(context.model, begin, context.context_room(1))
    for task in tasks.tasks:
        match task:
            case ChoiceTaskConfig():
                shots = sorted(task.shots or tasks.shots)
                yield from evaluate_choices(context, task, shots, scorer)
            case GenerationTaskConfig():
                shots = sorted(task.shots or tasks.shots)
                yield from evaluate_generation(context, task, shots)
            case PerplexityTaskConfig():
                yield evaluate_perplexity(context, task)


def _check_objective(config: RunConfig, tasks: TaskFileConfig) -> None:
    """Checks that the model answers in words, and for perplexities is causal."""
    objective = config.objective
    if not isinstance(objective, _DECODERS | _ENCODER_DECODERS):
        raise ConfigError(
            f"objective.kind={objective.kind}: tasks are for models that answer in "
            f"words, whose kind is {_KINDS}. Evaluate this model with its own test "
            "set: `transbeam evaluate --test`"
        )
    perplexities = [
        task.name for task in tasks.tasks if isinstance(task, PerplexityTaskConfig)
    ]
    if perplexities and isinstance(objective, PrefixConfig | _ENCODER_DECODERS):
        raise ConfigError(
            f"task {perplexities[0]!r}: objective.kind={objective.kind} reads the "
            "beginning of a text in both directions, so it has no perplexity of whole "
            "texts. Remove the task"
        )


def _check_libraries(tasks: TaskFileConfig) -> None:
    """Checks before the work that the libraries of all scores are installed."""
    for task in tasks.tasks:
        if isinstance(task, GenerationTaskConfig):
            try:
                signatures(task.scores)
            except ConfigError as error:
                raise ConfigError(f"task {task.name!r}: {error}") from error


def _say_left_out(console: Any, results: list[TaskResult]) -> None:
    """Warns of documents without a score, once for each task."""
    by_task: dict[str, Counter[str]] = {
        result.task: result.left_out for result in results
    }
    for name, left_out in by_task.items():
        for reason, count in left_out.items():
            console.warn(f"left out of {name}: {count:,} documents: {reason}")


def _answers_file(result: TaskResult) -> str:
    name = "".join(x if x.isalnum() or x in "-_." else "_" for x in result.task)
    return f"{name}-{result.shots}.jsonl"
