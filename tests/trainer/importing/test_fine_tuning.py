"""To fine-tune an imported model takes a source, an objective and one line."""

from pathlib import Path

from tests.docs import ROOT
from tests.trainer.conftest import eagerly
from tests.trainer.importing.hugging_face_checkpoints import write_bert
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.loader.yaml_dump import dump_sections

FILE = ROOT / "docs/fine_tune.yaml"
SMALLER = ("training.steps=2", "training.batch_size=2", "training.samples=0")


@eagerly
def test_twelve_lines_train_what_was_imported(command, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(ROOT / "docs")
    assert command("import", write_bert(Path("bert"), "bert"), "--run", "runs/bert")
    text = FILE.read_text("utf-8")
    assert len(text.splitlines()) == 12
    own = Path("own.yaml")
    own.write_text(text.replace("runs/tiny_trimmed", "runs/bert"))
    smaller = [word for key in SMALLER for word in ("--set", key)]
    where = ["--run", "runs/reviews", *smaller]

    assert command("data", own, *where, "--workers", 1)["code"] == 0
    trained = command("train", own, *where)
    assert trained["code"] == 0
    there = load_run("runs/bert").model
    saved = Path("runs/reviews/training/run.yaml")
    assert load_run(saved).model == there
    assert "init_from: runs/bert" in saved.read_text()

    # The same by hand finds what is made, and has nothing to do.
    by_hand = dump_sections({"model": there}) + (
        "tokenizer: {kind: pretrained, path: runs/bert/imported/tokenizer}\n"
    )
    older = text.replace("model: {init_from: runs/tiny_trimmed}\n", by_hand)
    own.write_text(older.replace("training:", "training:\n  init_from: runs/bert"))
    for stage in ("data", "train"):
        told = command(stage, own, *where)
        assert (told["code"], told.get("skipped")) == (0, True), stage
