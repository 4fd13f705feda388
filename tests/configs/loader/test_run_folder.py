"""The folder of a run: nothing is lost, nothing stale is used, nobody shares it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.base.version import VERSION
from transbeam.configs.loader.run_folder import Stage, fingerprint, lock, save_config
from transbeam.configs.loader.yaml_config import load_run

REPOSITORY = Path(__file__).parents[3]
OLD = {"seed": 17, "tokenizer.vocabulary_size": 4096, "data.limit": 5}
NEW = {"seed": 17, "tokenizer.vocabulary_size": 8192, "export.tflite": ["float32"]}
COMMAND = "transbeam data demo.yaml --run runs/demo"


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "run", "data", COMMAND)


def finish(stage, inputs=OLD, content="records"):
    stage.begin(inputs)
    (stage.path / "records").write_text(content)
    stage.finish(inputs, {"records": 3})


def test_fingerprint_by_hand():
    # printf '%s' '{"a":1,"b":[true,null]}' | sha256sum | cut -c1-16
    assert fingerprint({"b": (True, None), "a": 1}) == "1cc69c7fa23616ca"


def test_fingerprint_tells_apart_what_python_finds_equal():
    prints = {fingerprint({"x": value}) for value in (1, 1.0, True, "1", [1], None)}
    assert len(prints) == 6


def test_life_of_a_stage(stage):
    assert stage.result_if_done(OLD) is None
    assert stage.differences(OLD) == []
    assert stage.begin(OLD) is None
    assert os.listdir(stage.path) == ["unfinished.json"]
    assert stage.result_if_done(OLD) is None
    stage.finish(OLD, {"records": 3})
    assert os.listdir(stage.path) == ["stage.json"]
    assert stage.result_if_done(OLD) == stage.require(OLD) == {"records": 3}
    assert stage.load() == {
        "format": 1,
        "version": VERSION,
        "stage": "data",
        "fingerprint": fingerprint(OLD),
        "inputs": OLD,
        "result": {"records": 3},
    }


def test_unfinished_stage_with_the_same_inputs_is_kept(stage):
    stage.begin(OLD)
    (stage.path / "shard-0").write_text("done")
    assert stage.begin(dict(reversed(OLD.items()))) is None
    assert (stage.path / "shard-0").read_text() == "done"


@pytest.mark.parametrize(("version", "resumes"), [("0.1.0", True), ("99.0", False)])
def test_stages_of_versions_with_other_results_are_moved_aside(
    stage, monkeypatch, version, resumes
):
    with monkeypatch.context() as older:
        older.setattr("transbeam.configs.loader.run_folder.VERSION", version)
        stage.begin(OLD)
    (stage.path / "shard-0").write_text("half of it")
    assert stage.is_resumable == resumes
    moved_to = stage.begin(OLD)
    assert (moved_to is None) == resumes
    folder = moved_to or stage.path
    assert (folder / "shard-0").read_text() == "half of it"
    if not resumes:
        assert os.listdir(stage.path) == ["unfinished.json"]


@pytest.mark.parametrize("is_finished", [True, False])
def test_stage_of_other_inputs_is_moved_aside_whole(stage, is_finished):
    stage.begin(OLD)
    (stage.path / "model").write_text("a week of work")
    if is_finished:
        stage.finish(OLD, {})
    moved_to = stage.begin(NEW)
    assert moved_to == stage.run_folder / "superseded" / f"data-{fingerprint(OLD)}"
    assert (moved_to / "model").read_text() == "a week of work"
    record = "stage.json" if is_finished else "unfinished.json"
    assert json.loads((moved_to / record).read_text())["inputs"] == OLD
    assert os.listdir(stage.path) == ["unfinished.json"]


@pytest.mark.parametrize("is_finished", [True, False])
def test_what_was_moved_aside_is_taken_up_again(stage, is_finished):
    stage.begin(OLD)
    (stage.path / "records").write_text("old")
    if is_finished:
        stage.finish(OLD, {"records": 3})
    assert not stage.take_up(OLD)
    finish(stage, NEW, "new")
    assert stage.take_up(OLD)
    assert (stage.path / "records").read_text() == "old"
    assert (stage.result_if_done(OLD) is not None) == is_finished
    assert stage.differences(OLD) == []
    assert stage.begin(OLD) is None
    # The other is on the shelf in its place, and comes back as well.
    assert len(os.listdir(stage.run_folder / "superseded")) == 1
    assert stage.take_up(NEW)
    assert (stage.path / "records").read_text() == "new"
    assert not stage.take_up({**OLD, "seed": 1})


def test_what_is_damaged_on_the_shelf_is_passed_over(stage):
    finish(stage)
    finish(stage, NEW)
    (shelved,) = (stage.run_folder / "superseded").iterdir()
    (shelved / "stage.json").write_text("{")
    assert not stage.take_up(OLD)
    assert stage.result_if_done(NEW) is not None


def test_a_finished_stage_is_extended_and_kept_as_it_was(stage):
    finish(stage)
    (stage.path / "parts").mkdir()
    (stage.path / "parts/one").write_text("one")
    kept = stage.extend(NEW, unchanging=["parts"])
    assert stage.result_if_done(OLD) is None
    assert (stage.differences(NEW), stage.begin(NEW)) == ([], None)
    assert kept == stage.run_folder / "superseded" / f"data-{fingerprint(OLD)}"
    shared = {
        name: (kept / name).samefile(stage.path / name)
        for name in ("records", "parts/one")
    }
    assert shared == {"records": False, "parts/one": True}
    # It is taken up again, and what it was extended to is as well.
    assert stage.take_up(OLD)
    assert stage.result_if_done(OLD) == {"records": 3}
    assert stage.take_up(NEW)
    assert not stage.is_finished


def test_an_unfinished_stage_is_extended_and_no_copy_is_made(stage):
    stage.begin(OLD)
    assert stage.extend(NEW) is None
    assert stage.differences(NEW) == []
    assert not (stage.run_folder / "superseded").exists()


def test_an_extension_of_which_nothing_came_is_taken_back(stage):
    finish(stage)
    stage.take_back(stage.extend(NEW))
    assert stage.result_if_done(OLD) == {"records": 3}
    assert not (stage.run_folder / "superseded").exists()


def test_files_are_copied_where_there_are_no_links(stage, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "no links here")

    finish(stage)
    monkeypatch.setattr(os, "link", refuse)
    kept = stage.extend(NEW, unchanging=["."])
    assert (kept / "records").read_text() == (stage.path / "records").read_text()


def test_what_was_moved_aside_is_never_overwritten(stage):
    moved = []
    for content in ("first", "second", "third"):
        finish(stage, OLD, content)
        moved.append(stage.begin(NEW))
        finish(stage, NEW)
        stage.begin(OLD)
    assert [path.name.removeprefix(f"data-{fingerprint(OLD)}") for path in moved] == [
        "",
        "-2",
        "-3",
    ]
    assert [(path / "records").read_text() for path in moved] == [
        "first",
        "second",
        "third",
    ]


def test_folder_of_unknown_origin_is_moved_aside(stage):
    stage.path.mkdir(parents=True)
    assert stage.begin(OLD) is None
    (stage.path / "unfinished.json").unlink()
    (stage.path / "precious").write_text("mine")
    moved_to = stage.begin(OLD)
    assert moved_to.name == "data-unknown"
    assert (moved_to / "precious").read_text() == "mine"


def test_beginning_a_finished_stage_again_leaves_it_finished(stage):
    finish(stage)
    assert stage.begin(OLD) is None
    assert stage.result_if_done(OLD) == {"records": 3}
    assert not (stage.path / "unfinished.json").exists()


def test_kill_between_the_two_last_writes_leaves_a_finished_stage(stage):
    stage.begin(OLD)
    left_over = (stage.path / "unfinished.json").read_text()
    stage.finish(OLD, {"records": 3})
    (stage.path / "unfinished.json").write_text(left_over)
    assert stage.result_if_done(OLD) == {"records": 3}


def test_differences_name_changed_added_and_removed_keys(stage):
    expected = [
        "tokenizer.vocabulary_size: 4096 there, 8192 here",
        'export.tflite: nothing there, ["float32"] here',
        "data.limit: 5 there, nothing here",
    ]
    stage.begin(OLD)
    assert stage.differences(NEW) == expected
    stage.finish(OLD, {})
    assert stage.differences(NEW) == expected


def test_an_option_that_came_later_and_is_left_out_changes_nothing(stage):
    before = {"steps": 2, "model": {"num_layers": 1}}
    stage.begin(before)
    stage.finish(before, {"records": 3})
    new = {"embedding_dim": None, "num_layers": 1}
    left_out = {"steps": 2, "trim": None, "model": new}
    assert stage.differences(left_out) == []
    assert stage.result_if_done(left_out) == stage.require(left_out) == {"records": 3}
    assert stage.begin(left_out) is None
    given = {**left_out, "trim": 0, "model": {**new, "embedding_dim": 8}}
    assert stage.result_if_done(given) is None
    assert stage.differences(given) == [
        "trim: nothing there, 0 here",
        'model: {"num_layers":1} there, {"embedding_dim":8,"num_layers":1} here',
    ]


def test_an_option_that_came_later_is_as_it_was_before_at_its_default(stage):
    finish(stage)
    assert stage.result_if_done({**OLD, "data.accept_incomplete_files": False})
    accepting = {**OLD, "data.accept_incomplete_files": True}
    assert stage.result_if_done(accepting) is None
    assert stage.differences(accepting) == [
        "data.accept_incomplete_files: nothing there, true here"
    ]


def test_require_refuses_by_name(stage):
    def refusal(inputs):
        with pytest.raises(ArtifactError) as caught:
            stage.require(inputs)
        return str(caught.value)

    assert refusal(OLD) == f"{stage.path}: there is no such folder. Make it: {COMMAND}"
    stage.path.mkdir(parents=True)
    assert "the folder has no stage.json" in refusal(OLD)
    stage.begin(OLD)
    assert "it was started and not finished. Resume it: transbeam data" in refusal(OLD)
    stage.finish(OLD, {})
    assert refusal(NEW) == (
        f"{stage.path}: made from other inputs:\n"
        "  tokenizer.vocabulary_size: 4096 there, 8192 here\n"
        '  export.tflite: nothing there, ["float32"] here\n'
        "  data.limit: 5 there, nothing here\n"
        f"Make it again (the old one is kept): {COMMAND}"
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "unreadable"),
        (lambda text: "", "unreadable"),
        (lambda text: "\udcff", "unreadable"),
        (lambda text: "[]", "not the record of a stage"),
        (lambda text: text.replace('"result"', '"resul"'), "not the record of a stage"),
        (lambda text: text.replace("4096", "4097"), "altered since it was written"),
        (
            lambda text: text.replace('"format": 1', '"format": 2'),
            "in format 2; this is",
        ),
    ],
)
def test_damaged_record_is_refused_with_a_way_out(stage, damage, message):
    finish(stage)
    file = stage.path / "stage.json"
    text = damage(file.read_text())
    file.write_text(text, errors="surrogateescape")
    for use in (
        stage.load,
        lambda: stage.result_if_done(OLD),
        lambda: stage.begin(NEW),
    ):
        with pytest.raises(ArtifactError, match=message) as caught:
            use()
        assert str(file) in str(caught.value)
        assert COMMAND in str(caught.value)
    assert (stage.path / "records").read_text() == "records"


def test_run_folder_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ArtifactError, match="a part of the path is a file"):
        Stage(tmp_path / "run", "data", COMMAND).begin(OLD)
    with (
        pytest.raises(ArtifactError, match="a file is in the way"),
        lock(tmp_path / "run"),
    ):
        pass


def test_a_place_where_no_folder_can_be(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "nowhere/run")
    with (
        pytest.raises(ArtifactError, match="no folder can be made there"),
        lock(Path("/proc/run") if Path("/proc").is_dir() else tmp_path / "run"),
    ):
        pass


def test_lock_makes_the_folder_and_lets_one_in(tmp_path):
    folder = tmp_path / "runs" / "demo"
    refusal = pytest.raises(ArtifactError, match=f"process {os.getpid()} is writing")
    with lock(folder), refusal, lock(folder):
        pass
    with lock(folder):
        pass


def test_lock_of_another_process_names_it_and_ends_with_it(tmp_path):
    program = (
        "import sys; from transbeam.configs.loader.run_folder import lock\n"
        "with lock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ArtifactError) as caught, lock(tmp_path):
            pass
        assert str(caught.value) == (
            f"{tmp_path}: process {other.pid} is writing here. Wait for it to end, or "
            "choose another folder with --run."
        )
        other.kill()
        other.wait()
        with lock(tmp_path):
            pass


def test_saved_config_loads_as_it_was(tmp_path):
    config = load_run(REPOSITORY / "configs" / "demo.yaml", ["seed=5"])
    save_config(tmp_path, config)
    assert load_run(tmp_path / "run.yaml") == config
