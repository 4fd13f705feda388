"""Output goes to the right stream, and progress is readable."""

import io
import json
import re
import sys
import threading

import pytest
from rich.console import Console as RichConsole

from transbeam.configs.cli.console import Console
from transbeam.configs.cli.progress import LogBar, TerminalBar


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def speak(console):
    console.heading("1 of 2: data")
    console.say("reading")
    console.result("3 records")
    console.show("record 0")
    console.warn("one document is empty")


def test_human_text_goes_to_stdout_and_warnings_to_stderr(capsys):
    speak(Console())
    out, err = capsys.readouterr()
    assert out == "\n1 of 2: data\nreading\n3 records\nrecord 0\n"
    assert err == "warning: one document is empty\n"


def test_quiet_hides_all_but_warnings_and_what_was_asked_for(capsys):
    console = Console(quiet=True)
    speak(console)
    with console.progress("Reading", 3, "records") as bar:
        bar.advance(3)
        bar.describe("done")
        bar.set(3)
    warning = "warning: one document is empty\n"
    assert capsys.readouterr() == ("record 0\n", warning)


def test_json_leaves_stdout_to_one_object(capsys):
    console = Console(json=True)
    speak(console)
    with console.progress("Reading", 3, "records") as bar:
        bar.advance(3)
    console.emit({"records": 3, "text": "é"})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"records": 3, "text": "é"}
    assert "reading" in err
    assert "record 0" in err
    with pytest.raises(RuntimeError, match="one JSON object"):
        console.emit({})


def test_without_json_nothing_is_emitted(capsys):
    Console().emit({"records": 3})
    assert capsys.readouterr() == ("", "")


def test_headings_are_bold_on_a_terminal_unless_the_user_minds(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    Console().heading("data")
    monkeypatch.setenv("NO_COLOR", "1")
    Console().heading("data")
    assert sys.stdout.getvalue() == "\n\033[1mdata\033[0m\n\ndata\n"


def test_log_lines_come_every_ten_seconds_and_at_the_end(capsys):
    clock = Clock()
    bar = LogBar("Training", 1000, "steps", clock=clock)
    for _ in range(100):
        clock.seconds += 0.25
        bar.advance(4)
    bar.describe("loss 3.21")
    clock.seconds = 50.0
    bar.set(1000)
    bar.close(finished=True)
    assert capsys.readouterr().err.splitlines() == [
        "Training: 160/1,000 steps (16%), 16 steps/s, elapsed 0:10, left 0:52",
        "Training: 320/1,000 steps (32%), 16 steps/s, elapsed 0:20, left 0:42",
        "Training: 1,000/1,000 steps (100%), 20 steps/s, elapsed 0:50, left 0:00, "
        "loss 3.21",
        "Training: 1,000/1,000 steps (100%), 20 steps/s, elapsed 0:50, loss 3.21",
    ]


def test_what_was_done_before_a_resume_is_not_speed(capsys):
    clock = Clock()
    bar = LogBar("Training", 1000, "steps", start=500, clock=clock)
    for done in range(510, 610, 10):
        clock.seconds += 1.0
        bar.set(done)
    assert capsys.readouterr().err == (
        "Training: 600/1,000 steps (60%), 10 steps/s, elapsed 0:10, left 0:40\n"
    )


@pytest.mark.parametrize("bar_of", [LogBar, TerminalBar])
def test_time_left_is_that_of_the_steps_that_compile_nothing(bar_of, capsys):
    clock, file = Clock(), io.StringIO()
    if bar_of is LogBar:
        bar = LogBar("training", 500, "steps", clock=clock)
    else:
        terminal = RichConsole(width=80, file=file)
        bar = TerminalBar("training", 500, "steps", 0.0, terminal, clock)
    # Two slow steps, then ten a second: at the end 30 s are left.
    clock.seconds = 40.0
    bar.advance(1)
    clock.seconds += 10.0
    bar.advance(1)
    for _ in range(198):
        clock.seconds += 0.1
        bar.advance(1)
    bar.close(finished=False)
    told = file.getvalue() + capsys.readouterr().err
    lefts = re.findall(r"left (\d+):(\d+)", told)
    assert all(int(minutes) * 60 + int(seconds) < 60 for minutes, seconds in lefts)
    assert bar_of is LogBar or lefts


def test_log_of_unknown_length(capsys):
    clock = Clock()
    bar = LogBar("Reading", None, "MB", clock=clock)
    clock.seconds = 10.0
    bar.advance(12.345)
    assert capsys.readouterr().err == "Reading: 12.3 MB, 1.23 MB/s, elapsed 0:10\n"


def test_progress_that_is_left_by_an_error_does_not_claim_the_end(capsys):
    def stumble():
        with Console().progress("Reading", 10, "records") as bar:
            bar.advance(4)
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        stumble()
    err = capsys.readouterr().err
    assert err.startswith("Reading: stopped at 4/10 records (40%), ")


def test_updates_from_many_threads_all_count(capsys):
    with Console().progress("Reading", 4000, "records") as bar:
        threads = [
            threading.Thread(target=lambda: [bar.advance() for _ in range(1000)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "Reading: 4,000/4,000 records (100%)" in capsys.readouterr().err


@pytest.mark.parametrize("total", [8, None])
def test_bar_on_a_terminal(monkeypatch, capsys, total):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Console().progress("Reading [MASK]", total, "records", start=2) as bar:
        assert isinstance(bar, TerminalBar)
        bar.advance(2)
        bar.describe("[loss]")
        bar.set(8)
        print("to stdout")
    shown = sys.stderr.getvalue()
    assert "Reading [MASK]" in shown
    assert "100%" in shown
    assert "[loss]" in shown
    assert "records/s" in shown
    assert capsys.readouterr().out == "to stdout\n"


REMARK = "loss 2.500, gradient 0.70, rate 3.0e-04, 5,800 tokens/s, MFU 41%, input 0%"


def drawn(
    width,
    *,
    total=6500,
    start=0.0,
    done=600,
    seconds=100.0,
    advances=5,
    remark=REMARK,
):
    """Returns the lines that a bar leaves on a terminal after equal advances."""
    clock, file = Clock(), io.StringIO()
    terminal = RichConsole(width=width, file=file)
    bar = TerminalBar("training", total, "steps", start, terminal, clock)
    clock.seconds += seconds * (advances == 0)
    for _ in range(advances):
        clock.seconds += seconds / advances
        bar.advance(done / advances)
    bar.describe(remark)
    bar.close(finished=done == total)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_long_remark_takes_nothing_of_the_bar(width):
    first, second = drawn(width)
    numbers = "   9% 600/6,500 6 steps/s 1:40 left 16:23"
    assert first.startswith("training ━")
    assert first.endswith(numbers)
    assert len(first) == width
    assert set(first.removeprefix("training").removesuffix(numbers)) <= set(" ━╸")
    assert second.rstrip() == REMARK


def test_narrow_terminal_loses_the_bar_first_and_no_number_in_part():
    slow = {"done": 1230, "total": 123456, "seconds": 9000}
    assert drawn(60, **slow) == [
        "training   1% 1,230/123,456 0.137 steps/s left 248:25:37",
        "loss 2.500, gradient 0.70, rate 3.0e-04, 5,800 tokens/s, MFU",
        "41%, input 0%",
    ]
    assert drawn(50, **slow, remark="") == [
        "training   1% 1,230/123,456 left 248:25:37"
    ]
    assert drawn(40, **slow, remark="") == ["  1% 1,230/123,456 left 248:25:37"]


def test_time_left_is_told_once_it_is_known():
    (line,) = drawn(80, start=12.4, advances=0, remark="")
    assert line.split() == ["training", "0%", "12/6,500", "1:40"]
    # A step of minutes: `rich` alone forgets the one before.
    (line,) = drawn(80, total=10, done=2, advances=2, seconds=400, remark="")
    assert line.endswith(" 20% 2/10 0.005 steps/s 6:40")
    (line,) = drawn(80, total=10, done=4, advances=4, seconds=800, remark="")
    assert line.endswith(" 40% 4/10 0.005 steps/s 13:20 left 20:00")
    (line,) = drawn(80, total=10, done=10, remark="")
    assert line.endswith("━ 100% 10/10 0.1 steps/s 1:40")
    (line,) = drawn(80, total=10, done=11, remark="")
    assert line.endswith("━ 100% 11/10 0.11 steps/s 1:40")


def test_bar_of_unknown_length_counts():
    (line,) = drawn(80, total=None, remark="")
    assert line.startswith("training ━")
    assert line.endswith("━ 600 6 steps/s 1:40")


def test_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Console().progress("Reading", 8, "records") as bar:
        assert isinstance(bar, LogBar)
