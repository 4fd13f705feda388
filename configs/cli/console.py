"""Output of a command: messages, warnings, progress, and one JSON object.

Text goes to stdout. With `--json`, stdout gets only a single JSON object, and all text
goes to stderr. Progress always goes to stderr.
"""

import json as json_module
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from transbeam.configs.cli.progress import Bar, LogBar, SilentBar, TerminalBar


class Console:
    """Prints the output of a command.

    Args:
        quiet: Hide everything except warnings, errors and output of `show`.
        json: Reserve stdout for the object given to `emit`.

    Example:
    >>> console = Console()
    >>> console.say("reading the corpus")
    reading the corpus
    >>> Console(json=True).emit({"records": 3})
    {
      "records": 3
    }
    """

    def __init__(self, quiet: bool = False, json: bool = False):
        self.quiet = quiet
        self.json = json
        self._has_emitted = False

    def say(self, text: str) -> None:
        """Prints a progress message."""
        self._print(text)

    def result(self, text: str) -> None:
        """Prints the result of a stage, as the last line of the stage's output."""
        self._print(self._bold(text))

    def heading(self, text: str) -> None:
        """Prints a heading, after an empty line."""
        self._print("\n" + self._bold(text))

    def show(self, text: str) -> None:
        """Prints output that the user requested, also with `--quiet`."""
        print(text, file=self._stream, flush=True)

    def part(self, text: str) -> None:
        """Prints a fragment of requested output, without a newline at its end."""
        print(text, end="", file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        """Prints a warning, also with `--quiet`."""
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def emit(self, value: dict[str, Any]) -> None:
        """Prints the command's JSON object; without `--json` does nothing.

        Raises:
            RuntimeError: `emit` was already called.
        """
        if not self.json:
            return
        if self._has_emitted:
            raise RuntimeError("a command prints one JSON object, and has done so")
        print(json_module.dumps(value, indent=2, allow_nan=False), flush=True)
        self._has_emitted = True

    @contextmanager
    def progress(
        self, label: str, total: float | None, unit: str, start: float = 0.0
    ) -> Generator[Bar, None, None]:
        """Shows the progress and the speed of some work.

        On a terminal the progress is a bar, elsewhere occasional plain lines.

        Args:
            label: Label of the progress bar, such as `training`.
            total: Total number of units of work; None if unknown.
            unit: Name of a unit, as in `12.3 steps/s`.
            start: Number of units finished before this call, as after a resume; the
                speed excludes them.

        Yields:
            The bar; its methods may be called from any thread.
        """
        bar: Bar
        if self.quiet:
            bar = SilentBar()
        elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            bar = TerminalBar(label, total, unit, start)
        else:
            bar = LogBar(label, total, unit, start)
        try:
            yield bar
        except BaseException:
            bar.close(finished=False)
            raise
        bar.close(finished=True)

    def _print(self, text: str) -> None:
        if not self.quiet:
            self.show(text)

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self.json else sys.stdout

    def _bold(self, text: str) -> str:
        is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        if is_plain or not self._stream.isatty():
            return text
        return f"\033[1m{text}\033[0m"
