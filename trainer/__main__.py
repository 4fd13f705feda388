"""`transbeam train`, `evaluate`, `analyze`, `sweep`, `suite`, `import` and so on.

Also `python -m transbeam.trainer COMMAND`.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.arguments import Invocation, read_invocation, run_main
from transbeam.configs.cli.commands import Command, run_command
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.run_folder import lock
from transbeam.configs.loader.task_file import load_task_file
from transbeam.configs.schema.pruning import KERNELS
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.trainer.analysis.analyze_arguments import AnalyzeArguments
from transbeam.trainer.arguments import (
    EvaluateArguments,
    ImportArguments,
    PruneArguments,
    SuiteArguments,
    SweepArguments,
    TrainArguments,
    TrimArguments,
)
from transbeam.trainer.distribution.process_info import find_rank, require_one_process
from transbeam.trainer.distribution.rendezvous import SECONDS
from transbeam.trainer.distribution.rendezvous_sides import open_rendezvous
from transbeam.trainer.explanation.explain_arguments import ExplainArguments
from transbeam.trainer.explanation.explain_command import explain_or_draw
from transbeam.trainer.measurement.cost_arguments import CostArguments
from transbeam.trainer.measurement.cost_command import count_and_measure


def train(invocation: Invocation, *, seconds: int = SECONDS) -> dict[str, Any]:
    """Trains and evaluates the model of a run; see `transbeam.trainer.run.train`.

    Args:
        invocation: The command.
        seconds: The maximum number of seconds to wait for the other workers.
    """
    with open_rendezvous(
        invocation.config, invocation.console.warn, seconds
    ) as rendezvous:
        quiet_import("tensorflow", "keras")
        from transbeam.trainer import run

        return run.train(invocation, rendezvous)


def _train(arguments: TrainArguments) -> dict[str, Any] | None:
    invocation = read_invocation(arguments, with_model=True)
    if not find_rank(os.environ).is_chief:
        # Of several workers only the chief locks the folder and prints progress.
        alike = replace(invocation, console=Console(quiet=True))
        train(alike, seconds=arguments.worker_timeout)
        return None
    with lock(invocation.run_folder):
        return train(invocation, seconds=arguments.worker_timeout)


def evaluate(invocation: Invocation, **options: Any) -> dict[str, Any]:
    """Evaluates the model of a run on its validation split.

    Args:
        invocation: The command.
        options: See `transbeam.trainer.evaluation.evaluate_command.evaluate_run`.
    """
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.evaluation.evaluate_command import evaluate_run

    return evaluate_run(invocation, **options)


def _evaluate(arguments: EvaluateArguments) -> dict[str, Any]:
    if arguments.tasks is not None and (arguments.test or arguments.model):
        other = "--test" if arguments.test else "--model"
        raise ConfigError(
            f"--tasks and {other}: tasks bring their own questions, and are put to the "
            "run's own model. Give one of the two"
        )
    invocation = read_invocation(arguments, with_model=True)
    if arguments.tasks is not None:
        return _evaluate_tasks(invocation, arguments.tasks)
    with lock(invocation.run_folder):
        return evaluate(invocation, on_test=arguments.test, model=arguments.model)


def _evaluate_tasks(invocation: Invocation, file: Path) -> dict[str, Any]:
    load_task_file(file)  # errors before the libraries are loaded
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.tasks.tasks_command import evaluate_tasks

    with lock(invocation.run_folder):
        return evaluate_tasks(invocation, file)


def _sweep(arguments: SweepArguments) -> dict[str, Any]:
    require_one_process(
        os.environ,
        "transbeam sweep",
        "For each of its runs make the records once, by `transbeam data`, then call "
        "`transbeam train` at all workers",
    )
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.sweep import sweep

    console = Console(quiet=arguments.quiet, json=arguments.json)
    return sweep(arguments.sweep, arguments.run_folder, console)


def _suite(arguments: SuiteArguments) -> dict[str, Any]:
    require_one_process(
        os.environ,
        "transbeam suite",
        "Make its rows one by one: `transbeam data` and `transbeam train` take the "
        "row.yaml of each",
    )
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.suite import SuiteOptions, suite

    options = SuiteOptions(
        init=arguments.init,
        folder=arguments.run_folder,
        teacher=arguments.teacher,
        overrides=arguments.overrides,
    )
    console = Console(quiet=arguments.quiet, json=arguments.json)
    return suite(arguments.suite, options, console)


def _import(arguments: ImportArguments) -> dict[str, Any]:
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.importing.import_command import import_run

    return import_run(
        arguments.checkpoint,
        arguments.run_folder,
        arguments.overrides,
        arguments.console,
    )


def _trim(arguments: TrimArguments) -> dict[str, Any]:
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.derived_runs.trim_command import trim_run

    return trim_run(
        arguments.old_folder,
        arguments.run_folder,
        arguments.overrides,
        arguments.console,
        min_count=arguments.min_count,
        max_size=arguments.max_size,
    )


def _prune(arguments: PruneArguments) -> dict[str, Any]:
    quiet_import("tensorflow", "tensorflow_text", "keras")
    of_run = arguments.old_folder, arguments.run_folder, arguments.overrides
    if arguments.weights is not None:
        from transbeam.trainer.derived_runs.prune_weights_command import (
            prune_weights_of_run,
        )

        return prune_weights_of_run(
            *of_run,
            arguments.console,
            sparsity=arguments.weights,
            scope=arguments.scope or "matrix",
            targets=arguments.targets or KERNELS,
        )
    from transbeam.trainer.derived_runs.prune_command import BATCHES, prune_run

    return prune_run(
        *of_run,
        arguments.console,
        heads=arguments.heads,
        intermediate=arguments.intermediate,
        by=arguments.by or "gradient",
        batches=arguments.batches or BATCHES,
    )


def _analyze(arguments: AnalyzeArguments) -> dict[str, Any]:
    quiet_import("tensorflow", "tensorflow_text", "keras")
    from transbeam.trainer.analysis.analyze_command import analyze_run

    return analyze_run(arguments)


def _cost(arguments: CostArguments) -> dict[str, Any]:
    return count_and_measure(arguments)


def _explain(arguments: ExplainArguments) -> dict[str, Any]:
    return explain_or_draw(arguments)


COMMANDS = (
    Command(
        name="explain",
        run=_explain,
        summary="list the keys of a configuration, or draw what they do",
        description="Lists the keys with their defaults, ranges and meanings. With "
        "--page, draws the kinds of a key (model.position, model.attention, "
        "training.schedule), or of a run its positions, attention masks, learning rate "
        "and parameters.",
        epilog="example: transbeam explain configs/demo.yaml --page demo.html",
    ),
    Command(
        name="cost",
        run=_cost,
        summary="count a model's weights, FLOPs and memory, or measure them",
        description="Computes the cost of a run's model without building it: weights "
        "by part, FLOPs of the forward and backward pass, memory in training and "
        "generation, and the FLOPs of attention by length. --budget says what a number "
        "of FLOPs buys. --measure times the model, and models like it of other sizes.",
        epilog="example: transbeam cost my.yaml --measure length,batch --picture "
        "cost.svg",
    ),
    Command(
        name="train",
        run=_train,
        summary="train the model on the records",
        description="Trains the model of CONFIG on the records that `transbeam data` "
        "wrote, and evaluates it. Ctrl-C saves a checkpoint, from which the same "
        "command resumes.",
        epilog="example: transbeam train configs/demo.yaml",
    ),
    Command(
        name="evaluate",
        run=_evaluate,
        summary="evaluate the trained model",
        description="Evaluates the model of CONFIG, trained or imported, on the whole "
        "validation split and writes the metrics of its objective to the run's "
        "folder. With --tasks, puts the questions of a file to a decoder or "
        "an encoder-decoder that was not trained for them.",
        epilog="example: transbeam evaluate configs/demo.yaml",
    ),
    Command(
        name="analyze",
        run=_analyze,
        summary="analyze what the model has learned",
        description="Reads texts with the model of RUN, trained or imported, and "
        "writes what its layers and heads do to RUN/analysis: tables, pictures and a "
        "page. Parts of an earlier analysis of the same weights are kept.",
        epilog="example: transbeam analyze runs/demo",
    ),
    Command(
        name="sweep",
        run=_sweep,
        summary="train with each combination of some keys' values",
        description="Runs the data job and the training for each combination of the "
        "keys' values in FILE, and compares the runs in a table and a picture. "
        "Finished runs are not repeated.",
        epilog="example: transbeam sweep docs/sweep.yaml",
    ),
    Command(
        name="suite",
        run=_suite,
        summary="train and score a model on each task of a suite, such as GLUE",
        description="Makes the run of each row of FILE whose files are there, and "
        "writes a table of their scores with the average. Finished rows are not "
        "repeated.",
        epilog="example: transbeam suite configs/suites/glue.yaml --init runs/minilm",
    ),
    Command(
        name="import",
        run=_import,
        summary="import a published checkpoint as a run",
        description="Reads a folder with config.json and model.safetensors "
        "(transformers), a TensorFlow 1 BERT or a KerasHub preset, and the "
        "tokenizer's files in it, and writes a run's folder: run.yaml, the tokenizer "
        "and the weights. Nothing is downloaded.",
        epilog="example: transbeam import path/to/bert-base-uncased --run runs/bert",
    ),
    Command(
        name="trim",
        run=_trim,
        summary="remove tokens from the vocabulary that a corpus does not need",
        description="Writes a new run's folder with the model of RUN and only the part "
        "of its vocabulary that the texts of data.source need. "
        "The model's outputs for these texts do not change. Supports WordPiece and "
        "byte-level BPE.",
        epilog="example: transbeam trim runs/bert --run runs/small "
        "--set data.source.path=my.txt",
    ),
    Command(
        name="prune",
        run=_prune,
        summary="remove heads and hidden units, or set single weights to zero",
        description="Writes a new run's folder with the model of RUN, but with fewer "
        "attention heads and intermediate units, the same number in every block. Their "
        "importance is estimated from gradients of the loss on RUN's own training "
        "records; that of heads may also be a score of RUN's analysis (--by). With "
        "--weights, the smallest single weights become zero instead: a compressed file "
        "is smaller then, but the model is not faster. The pruned model needs further "
        "training.",
        epilog="example: transbeam prune runs/bert --run runs/small --heads 6 "
        "--intermediate 768",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `train CONFIG`, `evaluate CONFIG`, `sweep FILE`, `import DIR` and so on."""
    return run_main(partial(run_command, __doc__, COMMANDS), argv)


if __name__ == "__main__":
    raise SystemExit(main())
