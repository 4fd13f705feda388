"""What a command says goes to the right stream, and its progress is readable."""

import io
import json
import sys
import threading

import pytest

from configs.console import Console
from configs.progress import LogBar, TerminalBar


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
    clock.seconds = 10.0
    bar.set(600)
    assert capsys.readouterr().err == (
        "Training: 600/1,000 steps (60%), 10 steps/s, elapsed 0:10, left 0:40\n"
    )


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


def test_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Console().progress("Reading", 8, "records") as bar:
        assert isinstance(bar, LogBar)
