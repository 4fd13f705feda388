"""A path with a scheme is refused, and no folder of that name is made."""

from pathlib import Path

import pytest

import transbeam

CONFIG = Path(__file__).parents[3] / "configs/tiny/causal.yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", str(CONFIG), "--run", "s3://bucket/r"],
        ["data", str(CONFIG), "--run", "gs://bucket/r"],
        ["train", "hdfs://host/run.yaml"],
        ["import", "https://huggingface.co/gpt2", "--run", "r"],
        ["import", "checkpoint", "--run", "S3://bucket/r"],
        ["predict", str(CONFIG), "--output", "s3://bucket/answers.jsonl"],
        ["tokenize", "runs/x", "s3://bucket/texts.txt"],
        ["serve", str(CONFIG), "--run", "s3://bucket/r"],
    ],
)
def test_refused_in_one_line(tmp_path, monkeypatch, capsys, arguments) -> None:
    monkeypatch.chdir(tmp_path)
    assert transbeam.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected a path of this machine" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["data", "run", "train"])
def test_a_variable_that_is_empty_is_not_the_folder_one_is_in(
    tmp_path, monkeypatch, capsys, command
) -> None:
    monkeypatch.chdir(tmp_path)
    assert transbeam.main([command, str(CONFIG), "--run", ""]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected a path, found nothing" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", ["-1", "0", "x"])
def test_inspect_counts_from_one(capsys, number) -> None:
    with pytest.raises(SystemExit) as end:
        transbeam.main(["data", str(CONFIG), "--inspect", number])
    assert end.value.code == 2
    assert f"argument --inspect: {number}" in capsys.readouterr().err.replace("'", "")
