"""`transbeam tokenize`, from the command line to what is printed."""

import codecs
import gzip
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.pipeline.__main__ import main
from transbeam.pipeline.tokenize_command import align, parse_ids
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

PIECES = (*SPECIAL_PIECES, "un", "##able", "!", "漢")


@pytest.fixture
def folder(tmp_path):
    model = WordPieceModel(pieces=PIECES, lowercase=True, strip_accents=True)
    save_tokenizer(tmp_path / "run/data/tokenizer", model)
    return tmp_path / "run"


@pytest.fixture
def stdin(monkeypatch):
    def give(content: bytes):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))

    return give


def test_pieces_with_their_ids_below(folder, stdin, capsys):
    stdin("Unable!\r\n\n漢 x".encode())
    assert main(["tokenize", str(folder)]) == 0
    assert capsys.readouterr().out == (
        "un  ##able  !\n5   6       7\n\n(no pieces)\n\n漢  [UNK]\n8   1\n\n"
    )


def test_an_object_for_each_line(folder, stdin, capsys):
    stdin(b"Un\xff!\n\n")
    assert main(["tokenize", str(folder), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "text": "Un\ufffd!",
            "pieces": ["un", "!"],
            "ids": [5, 7],
            "offsets": [[0, 2], [3, 4]],
        },
        {"text": "", "pieces": [], "ids": [], "offsets": []},
    ]


def test_offsets_below_the_ids(folder, stdin, capsys):
    stdin("Únable 漢".encode())
    assert main(["tokenize", str(folder), "--offsets"]) == 0
    assert capsys.readouterr().out == (
        "un   ##able  漢\n5    6       8\n0-2  2-6     7-8\n\n"
    )


def test_json_lines_hold_texts_of_several_lines(folder, tmp_path, stdin, capsys):
    content = b'{"text": "un\\nable", "more": 1}\n\n"un!"\n{"text": "\\ud800"}\n'
    (tmp_path / "a.jsonl").write_bytes(content)
    stdin(content)
    told = []
    for arguments in (["--json-lines"], [str(tmp_path / "a.jsonl")]):
        assert main(["tokenize", str(folder), *arguments, "--json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    rows = [json.loads(line) for line in told[0].splitlines()]
    assert [row["text"] for row in rows] == ["un\nable", "un!", "\ufffd"]
    assert [row["offsets"] for row in rows] == [
        [[0, 2], [3, 7]],
        [[0, 2], [2, 3]],
        [],
    ]


@pytest.mark.parametrize(
    "line", [b"un", b"12", b'{"txt": "un"}', b'{"text": 1}', b"[", b"[" * 100_000]
)
def test_json_lines_without_a_text_end_with_a_message(folder, stdin, capsys, line):
    stdin(b'"un"\n' + line)
    assert main(["tokenize", str(folder), "--json-lines"]) == 2
    assert (
        f"stdin, line 2: {line.decode()[:60]!r} has no text" in capsys.readouterr().err
    )


def test_files_and_options_in_any_order(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"un\n")
    run, file = str(folder), str(tmp_path / "a.txt")
    told = set()
    for order in (
        [run, "--report", file],
        [run, file, "--report"],
        ["--report", run, file],
    ):
        assert main(["tokenize", *order]) == 0
        told.add(capsys.readouterr().out)
    assert len(told) == 1
    assert main(["tokenize", run, "--json", file]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == [5]


def test_lines_of_files(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"un\n")
    (tmp_path / "b.txt").write_bytes(b"un!\nun")
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert main(["tokenize", str(folder), *files, "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["ids"] for line in lines] == [[5], [5, 7], [5]]


def test_compressed_files_and_a_byte_order_mark(folder, tmp_path, stdin, capsys):
    (tmp_path / "a.JSONL.gz").write_bytes(gzip.compress(b'"un"\n'))
    (tmp_path / "b.txt").write_bytes(codecs.BOM_UTF8 + b"un!\n")
    files = [str(tmp_path / "a.JSONL.gz"), str(tmp_path / "b.txt")]
    assert main(["tokenize", str(folder), *files, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["un", "un!"]
    stdin(codecs.BOM_UTF8 + b"un")
    assert main(["tokenize", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["offsets"] == [[0, 2]]


def test_what_is_no_text_of_utf_8_is_named(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes("un".encode("utf-16"))
    assert main(["tokenize", str(folder), str(tmp_path / "a.txt")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "a.txt: UTF-16 by its byte order mark, expected UTF-8" in told
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"un\n" * 99)[:-9])
    assert main(["tokenize", str(folder), str(tmp_path / "a.gz")]) == 2
    assert "a.gz: " in capsys.readouterr().err


def test_a_pipe_is_read_once(folder, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"un!\n",))
    writer.start()
    assert main(["tokenize", str(folder), str(pipe), "--json"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["ids"] == [5, 7]


def test_ids_become_text(folder, stdin, capsys):
    stdin(b'5 6 7\n\n2,8\n[5, 7]\n{"text": "?", "ids": [3]}\n')
    assert main(["tokenize", str(folder), "--decode"]) == 0
    assert capsys.readouterr().out == "unable !\n\n[CLS] 漢\nun !\n[SEP]\n"


def test_what_is_printed_can_be_decoded(tmp_path, stdin, capsys):
    (tmp_path / "spiece.model").write_bytes(train())
    texts = ["the banana and the bandana", "a café in the north", "", "10,000"]
    stdin("\n".join(texts).encode())
    assert main(["tokenize", str(tmp_path), "--json"]) == 0
    stdin(capsys.readouterr().out.encode())
    assert main(["tokenize", str(tmp_path), "--decode", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts


def test_report_on_all_lines(folder, stdin, capsys):
    stdin(b"un x\nunable")
    assert main(["tokenize", str(folder), "--report"]) == 0
    assert "tokens per word          1.333\n" in capsys.readouterr().out
    stdin(b"un x\nunable")
    assert main(["tokenize", str(folder), "--report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_tokens"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"5\n9", "line 2: there is no id 9; the ids of the 9 pieces are 0 to 8"),
        (b"-1", "line 1: there is no id -1"),
        (b"5 a", "line 1: '5 a' is not a row of ids; expected numbers"),
        (b"5.0", "not a row of ids"),
        (b'{"id": [5]}', "not a row of ids"),
        (b"[5", "not a row of ids"),
        (b"[" * 100_000, "not a row of ids"),
        (b"[true]", "not a row of ids"),
        (b"99999999999999999999", "there is no id 99999999999999999999"),
    ],
)
def test_wrong_ids_end_with_a_message(folder, stdin, capsys, line, message):
    stdin(line)
    assert main(["tokenize", str(folder), "--decode"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["run", "nothing.txt"], "nothing.txt: cannot be read (No such file"),
        (["run", "run"], "run: cannot be read (Is a directory)"),
    ],
)
def test_what_cannot_be_read_ends_with_a_message(
    folder, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(folder.parent)
    assert main(["tokenize", *arguments]) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_rows_are_cut_to_the_width_and_wide_characters_count_as_two():
    assert align(["漢字", "a", "bb"], [1, 10, 100], width=10) == (
        "漢字  a\n1     10\nbb\n100"
    )
    assert align(["e\u0301", "\n\u3000"], [1, 22], width=80) == (
        "e\u0301  \\n\\u3000\n1  22"
    )
    assert align(["wider than that"], [1], width=5) == "wider than that\n1"


def test_a_line_of_ids():
    assert parse_ids(b"", 10, "") == []
    assert parse_ids(b"  1,2 , 3 ", 10, "") == [1, 2, 3]


def test_help_needs_no_heavy_library():
    script = (
        "import sys, transbeam\n"
        "try:\n"
        "    transbeam.main(['tokenize', '--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'numpy', 'tensorflow', 'apache_beam', 'sentencepiece'}\n"
        "assert not heavy & set(sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ARTIFACT" in result.stdout
