"""Checks that training fits into memory, and suggests changes if it does not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from transbeam.configs.schema.objectives.objective import EmbeddingObjective
from transbeam.configs.schema.optimizers import AdafactorConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import Memory
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.stacks import sequences_per_record


def training_need(run: RunConfig, replicas: int = 1) -> int:
    """Estimates the peak bytes of a run's training, without the runtime's own memory.

    Args:
        run: The run.
        replicas: Number of devices that share a batch; the result is for one device.

    Raises:
        UserError: The tokenizer does not exist, so the vocabulary size is unknown.
    """
    records = -(-run.training.batch_size // replicas)
    rows = records * sequences_per_record(run.objective)
    return count_cost(run, batch_size=rows)["memory"]["training"]["peak"]


def advice(run: RunConfig, found: Memory, replicas: int = 1) -> str:
    """Suggests changes to a run whose training does not fit into memory.

    Args:
        run: The run.
        found: The available memory.
        replicas: Number of devices that share a batch.

    Returns:
        The required and the available memory, and suggested changes with the memory
        that each would need: first those with little or no effect on the results.
    """
    need = training_need(run, replicas)
    need_text = (
        f"training takes about {gigabytes(need)}, and there are "
        f"{gigabytes(found.size)} on {found.where}."
    )
    ways = {
        way: size
        for way, changed in _ways(run, found, replicas)
        if (size := training_need(changed, replicas)) < need
    }
    if not ways:
        return f"{need_text} Make the model smaller, or the records shorter"
    enough = {way: size for way, size in ways.items() if size <= found.size}
    intro = "One of these is enough" if enough else "No one of these is enough alone"
    listed = [f"  {way}: {gigabytes(size)}" for way, size in (enough or ways).items()]
    return "\n".join([f"{need_text} {intro}:", *listed])


def _ways(
    run: RunConfig, found: Memory, replicas: int
) -> Iterator[tuple[str, RunConfig]]:
    """Yields the keys to change, each with the run's config after the change."""

    def changed(**keys: Any) -> RunConfig:
        return replace(run, training=replace(run.training, **keys))

    again = {"rematerialize": True}
    parts = "training.accumulation="
    if (most := _accumulation(run, found, replicas)) is not None:
        yield f"{parts}{most}", changed(accumulation=most)
    if not run.training.rematerialize:
        yield "training.rematerialize=true", changed(**again)
        most = _accumulation(changed(**again), found, replicas)
        if most is not None:
            way = f"training.rematerialize=true and {parts}{most}"
            yield way, changed(accumulation=most, **again)
    if run.training.precision == "float32":
        way = "training.precision=mixed_bfloat16"
        yield way, changed(precision="mixed_bfloat16")
    if run.training.optimizer.kind != "adafactor":
        way = "training.optimizer={kind: adafactor}"
        yield way, changed(optimizer=AdafactorConfig())


def _accumulation(run: RunConfig, found: Memory, replicas: int) -> int | None:
    """Smallest `accumulation` that fits, or else the largest; None if at the limit."""
    training = run.training
    # A pair is compared with the others of its micro-batch.
    fewest = 2 if isinstance(run.objective, EmbeddingObjective) else 1
    most = training.batch_size // (fewest * replicas)
    more = [
        parts
        for parts in range(training.accumulation + 1, most + 1)
        if training.batch_size % (parts * replicas) == 0
    ]
    for parts in more:
        changed = replace(run, training=replace(training, accumulation=parts))
        if training_need(changed, replicas) <= found.size:
            return parts
    return more[-1] if more else None


def gigabytes(size: int) -> str:
    """Formats bytes, such as `1.2 GB`.

    Example:
    >>> gigabytes(1_234_000_000), gigabytes(12_300_000)
    ('1.2 GB', '0.01 GB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e9:,.2f} GB"
