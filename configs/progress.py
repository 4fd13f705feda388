"""The three faces of a progress bar: on a terminal, in a log, and none."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

SECONDS_BETWEEN_LINES = 10.0


class Bar(Protocol):
    """What the worker tells; all methods may be called from any thread."""

    def advance(self, count: float = 1) -> None:
        """So many more units are done."""

    def set(self, completed: float) -> None:
        """So many units are done in all."""

    def describe(self, text: str) -> None:
        """A short remark to show beside the bar, such as the loss."""

    def close(self, *, finished: bool) -> None:
        """The work is over; called once, by `Console.progress`."""


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
        clock: Seconds from any origin; another one in tests.
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
        self._lock = threading.Lock()

    def advance(self, count: float = 1) -> None:
        with self._lock:
            self._completed += count
            self._print_if_due()

    def set(self, completed: float) -> None:
        with self._lock:
            self._completed = completed
            self._print_if_due()

    def describe(self, text: str) -> None:
        with self._lock:
            self._remark = text

    def close(self, *, finished: bool) -> None:
        with self._lock:
            ending = "" if finished else "stopped at "
            self._print(ending, is_last=True)

    def _print_if_due(self) -> None:
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
        if self._total is not None and done > 0 and not is_last:
            left = elapsed * max(self._total - self._completed, 0) / done
            parts.append(f"left {duration(left)}")
        if self._remark:
            parts.append(self._remark)
        line = f"{self._label}: {', '.join(parts)}"
        print(line, file=sys.stderr, flush=True)

    def _count_text(self) -> str:
        if not self._total:
            return f"{amount(self._completed)} {self._unit}"
        percent = 100 * self._completed / self._total
        counted = f"{amount(self._completed)}/{amount(self._total)}"
        return f"{counted} {self._unit} ({percent:.0f}%)"


class TerminalBar:
    """A bar drawn by `rich`, which is imported only when there is one to draw."""

    def __init__(self, label: str, total: float | None, unit: str, start: float = 0.0):
        from rich.console import Console as RichConsole
        from rich.markup import escape
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            Task,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class RateColumn(ProgressColumn):
            def render(self, task: Task) -> Text:
                speed = task.finished_speed or task.speed
                return Text("" if speed is None else f"{amount(speed)} {unit}/s")

        class CountColumn(ProgressColumn):
            def render(self, task: Task) -> Text:
                total = "" if task.total is None else f"/{amount(task.total)}"
                return Text(f"{amount(task.completed)}{total}")

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            CountColumn(),
            RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[remark]}", markup=False),
            console=RichConsole(stderr=True),
            # Text for stdout must reach stdout even when that is a file.
            redirect_stdout=sys.stdout.isatty(),
        )
        # `completed` now and not by `advance`, which would count it as speed.
        self._task = self._progress.add_task(
            escape(label), total=total, completed=round(start), remark=""
        )
        self._progress.start()

    def advance(self, count: float = 1) -> None:
        self._progress.advance(self._task, count)

    def set(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed)

    def describe(self, text: str) -> None:
        self._progress.update(self._task, remark=text)

    def close(self, *, finished: bool) -> None:
        task = self._progress.tasks[0]
        if finished and task.total is None:
            # The length is known when the end is reached. Not by `update`, which
            # forgets the speed when the total changes.
            task.total = task.completed
        self._progress.stop()


def amount(value: float) -> str:
    """A number with about three digits that matter, or all of a larger one.

    Example:
    >>> amount(1234567.8), amount(12.345), amount(0.01234), amount(3)
    ('1,234,568', '12.3', '0.0123', '3')
    """
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds as a clock shows them.

    Example:
    >>> duration(36.4), duration(3723)
    ('0:36', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
