"""`transbeam cost`: counts what a model costs, and measures it if asked to."""

from pathlib import Path
from statistics import median
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.keras_backend import take_backend
from transbeam.model.cost.budget_text import describe_budget
from transbeam.model.cost.compute_budget import (
    describe_model,
    parse_budget,
    plan_budget,
)
from transbeam.model.cost.report import count_cost, find_vocabulary_size
from transbeam.model.cost.report_text import describe
from transbeam.model.cost.scaled_configs import scale
from transbeam.model.cost.stacks import sequences_per_record
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.measurement.cost_arguments import CostArguments


def count_and_measure(arguments: CostArguments) -> dict[str, Any]:
    """Runs `transbeam cost`.

    Returns:
        The result of `transbeam.model.cost.report.count_cost`; with `--budget` also
        `budget`, and with `--measure` also `measured`.

    Raises:
        UserError: The configuration or an option is invalid, or the model does not fit
            into memory.
    """
    run = load_run(arguments.config, arguments.overrides, with_model=True)
    cost = count_cost(
        run,
        length=arguments.length,
        batch_size=arguments.batch,
        vocabulary_size=arguments.vocabulary_size,
    )
    size = find_vocabulary_size(run, arguments.vocabulary_size)
    scaled = _with_options(run, arguments)
    console = Console(json=arguments.json)
    if not arguments.measure and arguments.budget is None and not arguments.json:
        console.show(describe(cost))
    result = dict(cost)
    if arguments.measure:
        result["measured"] = _measure(scaled, size, arguments, console)
    if arguments.budget is not None:
        result["budget"] = plan = _plan(scaled, size, arguments, result.get("measured"))
        if not arguments.json:
            console.show(describe_budget(plan))
    return result


def _with_options(run: RunConfig, arguments: CostArguments) -> RunConfig:
    """Applies `--length` and `--batch`, which count sequences."""
    if arguments.length is not None:
        run = scale(run, "length", arguments.length)
    if arguments.batch is not None:
        texts = sequences_per_record(run.objective)
        if arguments.batch % texts:
            raise ConfigError(
                f"--batch {arguments.batch}: a record has {texts} sequences. Choose a "
                "multiple"
            )
        run = scale(run, "batch", arguments.batch // texts)
    return run


def _measure(
    run: RunConfig, size: int, arguments: CostArguments, console: Console
) -> dict[str, Any]:
    # They need TensorFlow in other processes alone, and are for those who measure.
    from transbeam.trainer.measurement.measurement import measure_cost
    from transbeam.trainer.measurement.measurement_text import describe_measurement

    take_backend("train")  # for the processes that build and train models
    measured = measure_cost(run, size, arguments.axes, console, rounds=arguments.rounds)
    if not arguments.json:
        console.show(describe_measurement(measured))
    if arguments.picture is not None:
        from transbeam.pipeline.pages.pictures import save_svg
        from transbeam.trainer.measurement.measurement_picture import draw_measurement

        save_svg(draw_measurement(run.name, measured), arguments.picture)
        console.result(f"drawn to {arguments.picture}")
    return measured


def _plan(
    run: RunConfig, size: int, arguments: CostArguments, measured: Any
) -> dict[str, Any]:
    assert arguments.budget is not None
    kind, amount = parse_budget(arguments.budget)
    speed, source = _speed(run, size, arguments, measured)
    if size and kind == "seconds" and speed is None:
        raise ConfigError(
            f"--budget {arguments.budget}: how many FLOPs that is depends on the speed "
            "of this machine, which is unknown. Add --measure, or train the "
            "configuration for some steps first, or give FLOPs, such as 6e18"
        )
    flops = amount * speed if kind == "seconds" and speed else amount
    return {**plan_budget(run, flops, size, speed), "speed_source": source}


def _speed(
    run: RunConfig, size: int, arguments: CostArguments, measured: Any
) -> tuple[float | None, str]:
    """FLOPs per second of a training of the run, and where they are from."""
    for axis, found in (measured or {"axes": {}})["axes"].items():
        for point in found["points"]:
            if point["size"] == found["own"]:
                seconds = point["seconds"]["step"]["median"]
                return point["flops"]["step"] / seconds, f"as measured with {axis}"
    is_folder = arguments.config.is_dir()
    folder = arguments.config if is_folder else Path("runs", run.name)
    rows = [x for x in read_metrics(folder / "training") if "tokens_per_second" in x]
    # The first line of the log includes the compilation.
    if not (speeds := [row["tokens_per_second"] for row in rows[1:] or rows]):
        return None, ""
    each = describe_model(run, 1.0, size)["flops_per_token"] if size else 0.0
    return median(speeds) * each or None, f"as in the training log of {folder}"
