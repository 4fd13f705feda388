"""Measures time and memory of configurations like a run's, along one axis of size each.

All processes of an axis are alive at a time, if memory suffices, and are timed in
turns, so that other load on the machine affects all of them alike.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.cli.console import Console
from transbeam.configs.cli.progress import Bar, duration
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import RUNTIME, Memory, find_memory
from transbeam.model.cost.memory_advice import advice, gigabytes
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.scaled_configs import Axis, own_size, scale, sizes
from transbeam.trainer.measurement.measured_process import (
    MeasuredProcess,
    PreparedWork,
    ProcessFailedError,
    Work,
)

WORK: tuple[Work, ...] = ("forward", "step")
# Seconds. An update that takes longer is not measured.
LONGEST_STEP = 30.0
# The share of a point's time that goes to starting, building and compiling it.
_BUILDING = 0.7


@dataclass(frozen=True)
class PlannedPoint:
    """A configuration to measure, and what `model/cost` counts for it.

    Attributes:
        axis: The axis along which it differs from the run.
        size: Its size along the axis.
        run: The configuration.
        flops: FLOPs of a batch, by kind of work.
        memory: Bytes that its training needs, without the libraries' own.
    """

    axis: Axis
    size: int
    run: RunConfig
    flops: dict[Work, int]
    memory: int


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured configuration.

    Attributes:
        planned: The configuration.
        seconds: Seconds of each round, by kind of work.
        memory: Peak bytes; see `MeasuredProcess.memory`.
    """

    planned: PlannedPoint
    seconds: dict[Work, list[float]]
    memory: int


@dataclass(frozen=True)
class SkippedPoint:
    """A configuration that is not measured, and why."""

    axis: Axis
    size: int
    reason: str


def measure_cost(
    run: RunConfig,
    vocabulary_size: int,
    axes: Sequence[Axis],
    console: Console,
    *,
    rounds: int,
) -> dict[str, Any]:
    """Measures a run's time and memory against its size along some axes.

    Args:
        run: The run.
        vocabulary_size: The vocabulary size of its tokenizer.
        axes: The axes; the other sizes stay the run's own.
        console: Prints what is done, and the progress.
        rounds: Number of times of which the median is taken, after a warm-up.

    Returns:
        `device`, `backend`, `peak_flops`, `rounds`, and by axis in `axes`: `own`, the
        run's own size; `points`, see `as_json`; and `skipped`, with a reason each.

    Raises:
        UserError: The run's own configuration does not fit into memory, or cannot be
            built or run.
    """
    run = replace(run, training=replace(run.training, distillation=None))
    own = plan_point(run, "batch", own_size(run, "batch"), vocabulary_size)
    found = find_memory()
    if found and own.memory > found.beside_runtime().size:
        raise ConfigError(f"--measure: {advice(run, found.beside_runtime())}")
    console.say("building the run's own model, to see how long the others will take")
    prepared, building, took = _try(own, vocabulary_size)
    found = find_memory(accelerators=prepared.device != "cpu")
    planned: list[PlannedPoint] = []
    skipped: list[SkippedPoint] = []
    for axis in axes:
        for size in sizes(run, axis):
            try:
                point = plan_point(run, axis, size, vocabulary_size)
            except ConfigError as error:
                skipped.append(SkippedPoint(axis, size, str(error)))
                continue
            if reason := _reason_against(point, own, took, found):
                skipped.append(SkippedPoint(axis, size, reason))
            else:
                planned.append(point)
    works = sum(point.flops["step"] for point in planned) / own.flops["step"]
    seconds = len(planned) * building + (rounds + 3) * works * took * 4 / 3
    console.say(
        f"measuring {len(planned)} configurations on {prepared.device} with "
        f"{prepared.backend}, {rounds} times each; about {duration(seconds)}"
    )
    measured: list[MeasuredPoint] = []
    with console.progress("measuring", len(planned), "configurations") as progress:
        for group in group_by_memory(planned, found):
            done, failed = _measure_group(group, vocabulary_size, rounds, progress)
            measured += done
            skipped += failed
    return {
        "device": prepared.device,
        "backend": prepared.backend,
        "peak_flops": prepared.peak_flops,
        "precision": run.training.precision,
        "rounds": rounds,
        "axes": {
            axis: {
                "own": own_size(run, axis),
                "points": as_json(
                    [x for x in measured if x.planned.axis == axis],
                    own_size(run, axis),
                    prepared.peak_flops,
                ),
                "skipped": [
                    {"size": x.size, "reason": x.reason}
                    for x in skipped
                    if x.axis == axis
                ],
            }
            for axis in axes
        },
    }


def plan_point(
    run: RunConfig, axis: Axis, size: int, vocabulary_size: int
) -> PlannedPoint:
    """Counts the cost of a run of another size.

    Raises:
        ConfigError: The run has no such size.
    """
    scaled = scale(run, axis, size)
    images = vocabulary_size == 0
    cost = count_cost(scaled, vocabulary_size=None if images else vocabulary_size)
    work = cost["flops"]["per_sequence"]
    forward = cost["batch_size"] * work["forward"]["total"]
    backward = cost["batch_size"] * work["backward"]["total"]
    return PlannedPoint(
        axis,
        size,
        scaled,
        {"forward": forward, "step": forward + backward},
        cost["memory"]["training"]["peak"],
    )


def _try(own: PlannedPoint, size: int) -> tuple[PreparedWork, float, float]:
    """Builds and runs the own configuration; also returns the seconds it took."""
    began = time.perf_counter()
    process = MeasuredProcess(own.run, size)
    try:
        prepared = process.prepare()
        building = time.perf_counter() - began
        return prepared, building, process.seconds("step")
    except ProcessFailedError as error:
        raise UserError(
            f"--measure: the run's own configuration cannot be measured: {error}. "
            "Make it smaller, such as with --batch or --length"
        ) from None
    finally:
        process.close()


def _reason_against(
    point: PlannedPoint, own: PlannedPoint, took: float, found: Memory | None
) -> str | None:
    """Says why a configuration is not measured, from what is counted for it."""
    room = found and found.beside_runtime()
    if room and point.memory > room.size:
        return (
            f"training takes about {gigabytes(point.memory)}, and there are "
            f"{gigabytes(room.size)} on {room.where}"
        )
    seconds = took * point.flops["step"] / own.flops["step"]
    if seconds > LONGEST_STEP:
        return f"an update takes about {duration(seconds)}; give a smaller --batch"
    return None


def group_by_memory(
    points: Sequence[PlannedPoint], found: Memory | None
) -> Iterator[list[PlannedPoint]]:
    """Groups the points of each axis such that the processes of a group fit in memory.

    Args:
        points: The points, each of which fits alone.
        found: The available memory; None if unknown.

    Example:
    >>> memory = Memory("a machine", 5_000_000_000)
    >>> points = [PlannedPoint("depth", n, None, {}, n * 10**9) for n in (1, 2, 3)]
    >>> [[x.size for x in group] for group in group_by_memory(points, memory)]
    [[1], [2], [3]]
    """
    group: list[PlannedPoint] = []
    for point in points:
        together = [*group, point]
        held = sum(x.memory for x in together)
        if found and found.is_shared:
            held += RUNTIME * len(together)
        too_much = found is not None and held > found.size
        if group and (too_much or group[0].axis != point.axis):
            yield group
            group = []
        group.append(point)
    if group:
        yield group


def _measure_group(
    group: Sequence[PlannedPoint], vocabulary_size: int, rounds: int, progress: Bar
) -> tuple[list[MeasuredPoint], list[SkippedPoint]]:
    failed: list[SkippedPoint] = []
    seconds: dict[int, dict[Work, list[float]]] = {}
    memory: dict[int, int] = {}
    with ExitStack() as stack:
        processes = {}
        for number, point in enumerate(group):
            processes[number] = process = MeasuredProcess(point.run, vocabulary_size)
            stack.callback(process.close)

        def failing(number: int, error: Exception) -> None:
            point = group[number]
            failed.append(SkippedPoint(point.axis, point.size, str(error)))
            del processes[number]

        for number, process in list(processes.items()):
            progress.describe(f"{group[number].axis} {group[number].size:,}: building")
            try:
                process.prepare()
            except (ProcessFailedError, UserError) as error:
                failing(number, error)
            seconds[number] = {work: [] for work in WORK}
            progress.advance(_BUILDING)
        progress.describe("taking turns")
        for _ in range(rounds):
            for number, process in list(processes.items()):
                try:
                    for work in WORK:
                        seconds[number][work].append(process.seconds(work))
                    memory[number] = process.memory()
                except ProcessFailedError as error:
                    failing(number, error)
                progress.advance((1 - _BUILDING) / rounds)
        done = [
            MeasuredPoint(group[number], seconds[number], memory[number])
            for number in processes
        ]
    return done, failed


def as_json(
    points: Sequence[MeasuredPoint], own: int, peak_flops: float
) -> list[dict[str, Any]]:
    """Tabulates the points of an axis, with the theory beside each.

    Args:
        points: The measured points.
        own: The run's own size along the axis.
        peak_flops: FLOPs per second of large matrix products.

    Returns:
        For each point `size`; `seconds` of `forward` and `step`, with their `median`,
        `least` and `most`; `expected_seconds`, those of the run's own size times the
        ratio of the counted FLOPs, None if that was not measured; `flops`; `mfu`, the
        FLOPs of the update's median second as a share of `peak_flops`; `memory` and
        `expected_memory` in bytes.
    """
    base = next((point for point in points if point.planned.size == own), None)
    rows = []
    for point in points:
        medians = {work: median(point.seconds[work]) for work in WORK}
        expected: dict[str, float | None] = dict.fromkeys(WORK)
        if base is not None:
            for work in WORK:
                ratio = point.planned.flops[work] / base.planned.flops[work]
                expected[work] = median(base.seconds[work]) * ratio
        rows.append(
            {
                "size": point.planned.size,
                "seconds": {
                    work: {
                        "median": medians[work],
                        "least": min(point.seconds[work]),
                        "most": max(point.seconds[work]),
                    }
                    for work in WORK
                },
                "expected_seconds": expected,
                "flops": dict(point.planned.flops),
                "mfu": point.planned.flops["step"] / medians["step"] / peak_flops,
                "memory": point.memory,
                "expected_memory": point.planned.memory,
            }
        )
    return rows
