"""Progress bars: drawn on a terminal, written as plain log lines, or silent."""

import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import RenderableType
    from rich.progress import Task
_SETTLING = 3.0  # seconds
_MOST_UNLIKE = 1.5
_MOST_RATIO = _MOST_UNLIKE**2
_MOST_SAMPLES = 256


class Pace:
    """Estimates the speed of work, and reports it once it is stable.

    The first sample includes one-time costs, such as compilation, and is excluded. The
    speed is reported once the speeds over the last half and over the last quarter of
    the time are about equal.

    Example:
    >>> pace = Pace()
    >>> for step in range(1, 9):
    ...     pace.add(60.0 + step, step)  # the first one compiled for a minute
    ...     if step in (2, 8):
    ...         pace.speed(60.0 + step)
    1.0
    """

    def __init__(self) -> None:
        self._times: list[float] = []
        self._counts: list[float] = []
        self._is_settled = False

    def add(self, now: float, completed: float) -> None:
        """Records the total of finished units at a time in seconds."""
        self._times.append(now)
        self._counts.append(completed)
        if len(self._times) > _MOST_SAMPLES:  # keeps the first and the last
            del self._times[1:-1:2], self._counts[1:-1:2]

    def speed(self, now: float) -> float | None:
        """Units per second; None while the speed is not stable."""
        if len(self._times) < 2 or now - self._times[0] < _SETTLING:
            return None
        places = [self._begin(now, share) for share in (2, 4)]
        half, quarter = (
            (self._counts[-1] - self._counts[place]) / (now - self._times[place])
            for place in places
        )
        # With a single piece of work in both periods, both speeds would be equal.
        if places[0] < places[1] and half < _MOST_UNLIKE * quarter < _MOST_RATIO * half:
            self._is_settled = True
        return half if self._is_settled and half > 0 else None

    def _begin(self, now: float, share: int) -> int:
        """Index of the sample at the start of the last 1/`share` of the time."""
        begin = now - (now - self._times[0]) / share
        return bisect_right(self._times, begin, hi=len(self._times) - 1) - 1


SECONDS_BETWEEN_LINES = 10.0
_SHORTEST_BAR = 5
# The names are those of `rich`.
_STYLES = {
    "percent": "progress.percentage",
    "elapsed": "progress.elapsed",
    "left": "progress.remaining",
}


class Bar(Protocol):
    """A progress bar; all methods may be called from any thread."""

    def advance(self, count: float = 1) -> None:
        """Adds finished units."""

    def set(self, completed: float) -> None:
        """Sets the total of finished units."""

    def describe(self, text: str) -> None:
        """Sets a short text beside the bar, such as the loss."""

    def close(self, *, finished: bool) -> None:
        """Ends the bar; called once, by `Console.progress`."""


class SilentBar:
    """Shows nothing."""

    def advance(self, count: float = 1) -> None: ...
    def set(self, completed: float) -> None: ...
    def describe(self, text: str) -> None: ...
    def close(self, *, finished: bool) -> None: ...


class LogBar:
    """Plain lines on stderr, few enough to keep a log readable.

    Args:
        label, total, unit, start: As in `Console.progress`.
        clock: A clock in seconds; tests replace it.
    """

    def __init__(
        self,
        label: str,
        total: float | None,
        unit: str,
        start: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._label = label
        self._total = total
        self._unit = unit
        self._start = self._completed = start
        self._remark = ""
        self._clock = clock
        self._began = self._last_line = clock()
        self._pace = Pace()
        self._lock = threading.Lock()

    def advance(self, count: float = 1) -> None:
        with self._lock:
            self._update(self._completed + count)

    def set(self, completed: float) -> None:
        with self._lock:
            self._update(completed)

    def describe(self, text: str) -> None:
        with self._lock:
            self._remark = text

    def close(self, *, finished: bool) -> None:
        with self._lock:
            self._print("" if finished else "stopped at ", is_last=True)

    def _update(self, completed: float) -> None:
        self._completed = completed
        self._pace.add(self._clock(), completed)
        if self._clock() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._print()

    def _print(self, ending: str = "", is_last: bool = False) -> None:
        self._last_line = self._clock()
        elapsed = self._last_line - self._began
        done = self._completed - self._start
        parts = [ending + self._count_text()]
        if elapsed > 0:
            parts.append(f"{amount(done / elapsed)} {self._unit}/s")
        parts.append(f"elapsed {duration(elapsed)}")
        speed = None if is_last else self._pace.speed(self._last_line)
        if self._total is not None and speed:
            left = max(self._total - self._completed, 0) / speed
            parts.append(f"left {duration(left)}")
        if self._remark:
            parts.append(self._remark)
        print(f"{self._label}: {', '.join(parts)}", file=sys.stderr, flush=True)

    def _count_text(self) -> str:
        if not self._total:
            return f"{amount(self._completed)} {self._unit}"
        percent = 100 * self._completed / self._total
        counted = f"{amount(self._completed)}/{amount(self._total)}"
        return f"{counted} {self._unit} ({percent:.0f}%)"


class TerminalBar:
    """A bar drawn by `rich`, which is imported only when needed.

    The text of `describe` is on a separate line, so that a long text does not displace
    the numbers.

    Args:
        label, total, unit, start: As in `Console.progress`.
        terminal: The console to draw on, stderr if left out; tests replace it.
        clock: A clock in seconds; tests replace it.
    """

    def __init__(
        self,
        label: str,
        total: float | None,
        unit: str,
        start: float = 0.0,
        terminal: "RichConsole | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        from rich.console import Console as RichConsole
        from rich.progress import Progress
        from rich.text import Text

        start = round(start)  # `rich` starts at integers
        pace = self._pace = Pace()
        self._clock = clock

        class TwoLines(Progress):
            def get_renderables(self) -> "Iterator[RenderableType]":
                for task in self.tasks:
                    parts = _parts(task, unit, start, pace.speed(clock()))
                    yield _first_line(task, parts, self.console.width)
                    if remark := task.fields["remark"]:
                        yield Text(remark)

        self._progress = TwoLines(
            console=terminal or RichConsole(stderr=True),
            get_time=clock,
            # If stdout is a file, text for it must not be redirected to the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        # `completed` now and not by `advance`, which would count it as speed.
        self._task = self._progress.add_task(
            label, total=total, completed=start, remark=""
        )
        self._progress.start()

    def advance(self, count: float = 1) -> None:
        self._progress.advance(self._task, count)
        self._add_to_pace()

    def set(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed)
        self._add_to_pace()

    def _add_to_pace(self) -> None:
        self._pace.add(self._clock(), self._progress.tasks[0].completed)

    def describe(self, text: str) -> None:
        self._progress.update(self._task, remark=text)

    def close(self, *, finished: bool) -> None:
        task = self._progress.tasks[0]
        if finished and task.total is None:
            # At the end the total is known. Set directly, as `update` would reset the
            # speed.
            task.total = task.completed
        self._progress.stop()


def _parts(
    task: "Task", unit: str, start: float, settled: float | None
) -> dict[str, str]:
    """Returns the parts of the progress line, from left to right.

    Args:
        task: The `rich` task whose progress is shown.
        unit: Name of a unit.
        start: Units done before.
        settled: The speed from which the remaining time is estimated, if known.
    """
    elapsed = (task.finished_time if task.finished else task.elapsed) or 0.0
    speed = task.finished_speed or task.speed
    if not speed and elapsed > 0:
        # `rich` measures over the last half minute, in which a slow step may not end.
        speed = (task.completed - start) / elapsed
    total = "" if task.total is None else f"/{amount(task.total)}"
    parts = {"label": task.description}
    if total:
        parts["percent"] = f"{task.percentage:3.0f}%"
    parts["counts"] = f"{amount(task.completed)}{total}"
    if speed:
        parts["rate"] = f"{amount(speed)} {unit}/s"
    parts["elapsed"] = duration(elapsed)
    remaining = task.remaining or 0.0
    if settled and remaining > 0:
        parts["left"] = f"left {duration(remaining / settled)}"
    return parts


def _first_line(task: "Task", parts: dict[str, str], width: int) -> "RenderableType":
    """Lays out the numbers, and a bar in the remaining width.

    If there is no room for a bar, some numbers may not fit either; these numbers are
    left out rather than truncated.
    """
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    def room() -> int:
        return width - len(" ".join(parts.values()))

    bar_width = room() - 1
    for least in ("elapsed", "rate", "label"):
        if room() < 0:
            parts.pop(least, None)
    cells: list[RenderableType] = [
        Text(text, style=_STYLES.get(name, "")) for name, text in parts.items()
    ]
    if bar_width >= _SHORTEST_BAR:
        bar = ProgressBar(
            total=task.total,
            completed=task.completed,
            width=bar_width,
            pulse=task.total is None,
            animation_time=task.get_time(),
        )
        cells.insert(1, bar)
    line = Table.grid(padding=(0, 1))
    for _ in cells:
        line.add_column(no_wrap=True)
    line.add_row(*cells)
    return line


def amount(value: float) -> str:
    """Formats a number with three significant digits, or all of its integer digits.

    Example:
    >>> amount(1234567.8), amount(12.345), amount(0.01234), amount(3)
    ('1,234,568', '12.3', '0.0123', '3')
    """
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Formats seconds as hours, minutes and seconds.

    Example:
    >>> duration(36.4), duration(3723)
    ('0:36', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
