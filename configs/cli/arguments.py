"""Code that all commands share: arguments, and exit codes.

Each package's `__main__` describes its commands, and runs one of them in `run_main`:

    def main(argv: Sequence[str] | None = None) -> int:
        return run_main(partial(run_command, __doc__, COMMANDS), argv)
"""

import json
import os
import select
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from transbeam.configs.base.atomic_files import os_problem
from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.warmup import settle_warmup
from transbeam.configs.loader.yaml_config import Rule, load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.daemon_threads import any_running
from transbeam.configs.system.keras_backend import take_backend

CONFIG_HELP = "the YAML file of a run, or a run's folder"


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """An invocation of a command, with its configuration, run folder and console."""

    config: RunConfig
    config_file: Path
    overrides: tuple[str, ...]
    run_folder: Path
    console: Console
    workers: int
    runner: str = "FnApiRunner"
    beam_options: tuple[str, ...] = ()

    def command(self, name: str) -> str:
        """The command line of another command on the same run, for messages.

        Example:
        >>> invocation = Invocation(
        ...     config=None, config_file=Path("demo.yaml"), overrides=("seed=3",),
        ...     run_folder=Path("runs/demo"), console=Console(), workers=1,
        ... )
        >>> invocation.command("data")
        'transbeam data demo.yaml --run runs/demo --set seed=3'

        If there are overrides and the run's folder already contains the resulting
        configuration, the folder is given as CONFIG and `--set` is left out.
        """
        words = ["transbeam", name, str(self.config_file)]
        if self.overrides and self._is_saved():
            words[-1] = str(self.run_folder)
            return shlex.join(words)
        if self.run_folder != self.config_file:
            words += ["--run", str(self.run_folder)]
        for override in self.overrides:
            words += ["--set", override]
        return shlex.join(words)

    def _is_saved(self) -> bool:
        """Returns whether the run's folder contains this command's configuration."""
        try:
            saved = load_run(self.run_folder)
        except ConfigError:
            return False
        return settle_warmup(saved) == settle_warmup(self.config)


@dataclass(frozen=True, kw_only=True)
class SettingsArguments:
    """Arguments of commands that read a configuration."""

    overrides: tuple[str, ...] = argument(
        "--set KEY=VALUE",
        "override a key, such as training.steps=100; repeatable",
        default=(),
    )
    json: bool = argument(
        "--json", "print one JSON object on stdout, and everything else on stderr"
    )


@dataclass(frozen=True, kw_only=True)
class ConfigArguments(SettingsArguments):
    """Arguments of commands that read a configuration but no run folder."""

    config: Path = argument("CONFIG", CONFIG_HELP)


@dataclass(frozen=True, kw_only=True)
class FolderArguments(SettingsArguments):
    """Arguments of commands that work in a run's folder."""

    run_folder: Path | None = argument(
        "--run DIR",
        "the run's folder; by default the one given as CONFIG, or else runs/NAME with "
        "the name in the configuration",
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )

    @property
    def console(self) -> Console:
        return Console(quiet=self.quiet, json=self.json)


@dataclass(frozen=True, kw_only=True)
class RunArguments(FolderArguments):
    """Arguments of commands that work on a run."""

    config: Path = argument("CONFIG", CONFIG_HELP)


@dataclass(frozen=True, kw_only=True)
class OptionalRunArguments(FolderArguments):
    """Arguments of commands that accept another model instead of CONFIG."""

    config: Path | None = argument("CONFIG", CONFIG_HELP, default=None)


@dataclass(frozen=True, kw_only=True)
class JobArguments(RunArguments):
    """Arguments of commands that divide their work among processes."""

    workers: int | None = argument(
        "--workers N",
        "number of parallel workers on this machine; by default one per usable core",
    )


def read_invocation(
    arguments: RunArguments | OptionalRunArguments,
    *,
    with_model: bool = False,
    rules: Sequence[Rule] = (),
) -> Invocation:
    """Loads the configuration of the parsed arguments.

    Args:
        arguments: The parsed arguments, with `config` given.
        with_model: True if the command uses the model, not only the records.
        rules: Further checks of the configuration; see
            `transbeam.configs.loader.export_support`.

    Raises:
        ConfigError: The configuration is invalid.
    """
    file = arguments.config
    assert file is not None
    config = load_run(file, arguments.overrides, with_model=with_model, rules=rules)
    folder = file if file.is_dir() else Path("runs", config.name)
    return Invocation(
        config=config,
        config_file=file,
        overrides=arguments.overrides,
        run_folder=arguments.run_folder or folder,
        console=arguments.console,
        workers=getattr(arguments, "workers", None) or usable_cores(),
    )


def usable_cores() -> int:
    """Number of cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_main(
    function: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None
) -> int:
    """Runs a command, prints its errors, and returns its exit code.

    | what happens                          | exit code | traceback |
    |---------------------------------------|-----------|-----------|
    | the function returns                  | its value | no        |
    | the user's mistake, or a full disk    | 2         | no        |
    | the user's Ctrl-C                     | 130       | no        |
    | the reader of stdout is gone          | 141       | no        |
    | anything else: a bug                  | 1         | yes       |

    With `--json` among the arguments, a user error is also printed to stdout, as the
    only output, in an object with the key `error`.

    Args:
        function: The command: takes the arguments, returns the exit code.
        argv: The command and its arguments; those of the process (`sys.argv`) if left
            out.
    """
    code = _run(function, sys.argv[1:] if argv is None else argv)
    # A normal exit would clean up libraries that side threads still use, so the process
    # ends at once. If `argv` is given, the caller's process continues instead.
    if argv is None and any_running():
        _end_process(code)
    return code


def _run(function: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    _never_fail_to_print()
    try:
        if argv:
            take_backend(argv[0])
        code = function(argv)
        sys.stdout.flush()
    except UserError as error:
        return _end(argv, f"error: {error}", str(error), 2)
    except KeyboardInterrupt:
        text = "what is finished is kept; run the same command again to go on"
        _end(argv, f"interrupted: {text}", "interrupted", 130)
        return _leave(130)
    except BrokenPipeError:
        if not _stdout_is_gone():
            raise
        return 141
    except OSError as error:
        problem = os_problem(error)
        if problem is None:
            raise
        message = f"{error.filename or 'the disk'}: {problem}."
        return _end(argv, f"error: {message}", message, 2)
    return code


def _never_fail_to_print() -> None:
    """Makes stdout escape characters that its encoding lacks."""
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")


def _end(argv: Sequence[str], text: str, error: str, code: int) -> int:
    print(text, file=sys.stderr, flush=True)
    if "--json" in argv:
        print(json.dumps({"error": error}, indent=2), flush=True)
    return code


def _leave(code: int) -> int:
    """Ends the process at once if abandoned threads would delay its exit.

    Beam's worker threads would delay the exit: they first finish their work, which is
    no longer needed.
    """
    main = threading.main_thread()
    if any(not t.daemon and t is not main for t in threading.enumerate()):
        _end_process(code)
    return code


def _end_process(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stdout_is_gone() -> bool:
    """Returns whether a broken pipe is stdout's (as with `| head`), not a socket's."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are always reported
    if not poll.poll(0):
        return False
    # Python flushes stdout again at exit: discard that output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return True
