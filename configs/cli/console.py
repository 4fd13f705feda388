"""Output of a command: narrative, warnings, progress, and one JSON object.

Human text goes to stdout. With `--json`, stdout belongs to a single JSON object and
all human text goes to stderr. Progress goes to stderr always.
"""

import json as json_module
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from transbeam.configs.cli.progress import Bar, LogBar, SilentBar, TerminalBar


class Console:
    """Speaks for one command.

    Args:
        quiet: Hide everything but warnings, errors and what the user asked to see.
        json: Keep stdout for the object given to `emit`.

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
        """A line of the narrative: what is going on."""
        self._print(text)

    def result(self, text: str) -> None:
        """The one line a stage ends with: what was made."""
        self._print(self._bold(text))

    def heading(self, text: str) -> None:
        """Opens a part of the narrative, after an empty line."""
        self._print("\n" + self._bold(text))

    def show(self, text: str) -> None:
        """Prints the output that the user asked for; `--quiet` keeps it."""
        print(text, file=self._stream, flush=True)

    def part(self, text: str) -> None:
        """The next piece of what `show` would print whole; the line goes on."""
        print(text, end="", file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        """Something the user should know even with `--quiet`."""
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def emit(self, value: dict[str, Any]) -> None:
        """Prints the command's JSON object; without `--json` does nothing.

        Raises:
            RuntimeError: It is the second one.
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
        """Shows how far a piece of work has come, and how fast it goes.

        On a terminal this is a bar; elsewhere a plain line now and then.

        Args:
            label: What is being done.
            total: How many units there are; None if that is not known.
            unit: What is counted, as in `12.3 steps/s`.
            start: How many are done already, as after a resume; not counted as speed.

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
