"""Arguments of `transbeam cost`."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.cli.argument_parser import ArgumentGroup, argument
from transbeam.configs.cli.arguments import ConfigArguments
from transbeam.model.cost.compute_budget import parse_budget
from transbeam.model.cost.scaled_configs import AXES, Axis

_MEASURED = ArgumentGroup(
    "measurement",
    "Builds the configured model and models like it, and times them on this machine.",
)
_ROUNDS = 5
_FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class CostArguments(ConfigArguments):
    """Arguments of `transbeam cost`."""

    length: int | None = argument(
        "--length N", "tokens per sequence; data.sequence_length by default"
    )
    batch: int | None = argument(
        "--batch N", "sequences per batch; training.batch_size by default"
    )
    vocabulary_size: int | None = argument(
        "--vocabulary-size N",
        "size of the vocabulary; by default that of the configuration or of the "
        "tokenizer's files",
    )
    budget: str | None = argument(
        "--budget FLOPS",
        "also print which model size and how many tokens a budget buys: FLOPs, such "
        "as 6e18, or a time, such as 12h, if the speed is known",
    )
    measure: str | None = argument(
        "--measure AXES",
        "also measure time and memory against these sizes, of "
        f"{','.join(AXES)}; all if AXES is left out",
        group=_MEASURED,
        nargs="?",
        const=",".join(AXES),
    )
    rounds: int = argument(
        "--rounds N",
        f"times of which the median is taken, at least {_FEWEST}; {_ROUNDS} by default",
        default=_ROUNDS,
        group=_MEASURED,
    )
    picture: Path | None = argument(
        "--picture FILE", "draw the measured curves to an SVG file", group=_MEASURED
    )

    def __post_init__(self) -> None:
        if self.budget is not None:
            parse_budget(self.budget)
        _ = self.axes
        if self.measure is None and self.picture is not None:
            raise ConfigError(
                f"--picture {self.picture}: draws what is measured, and nothing is. "
                "Add --measure"
            )
        if self.picture is not None and self.picture.suffix != ".svg":
            raise ConfigError(f"--picture {self.picture}: expected a file.svg")
        if self.picture is not None and not self.picture.parent.is_dir():
            raise ConfigError(
                f"--picture {self.picture}: there is no folder {self.picture.parent}. "
                "Make it first"
            )
        if self.rounds < _FEWEST:
            raise ConfigError(f"--rounds {self.rounds}: at least {_FEWEST} are needed")

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes to measure; empty without `--measure`."""
        names = [] if self.measure is None else self.measure.split(",")
        for name in names:
            if name not in AXES:
                raise ConfigError(
                    f"--measure {self.measure}: {name!r} is not one of "
                    f"{', '.join(AXES)}.{did_you_mean(name, AXES)} Give CONFIG before "
                    "it, and axes without spaces, such as --measure length,batch"
                )
        return tuple(axis for axis in AXES if axis in names)
