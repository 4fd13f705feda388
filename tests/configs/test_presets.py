"""Published models at their published sizes, each with a twin at toy size."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.model.cost.parameters import count_parameters
from transbeam.model.cost.vocabulary_size import count_pieces

CONFIGS = Path(__file__).parents[2] / "configs"
TWINS = sorted(path.stem for path in (CONFIGS / "tiny").glob("*.yaml"))
# Weights without heads: as published; or worked out by hand from the paper's sizes.
PARAMETERS = {
    "bert_base": 109_482_240,
    "bert_large": 335_141_888,
    "roberta_base": 124_645_632,
    "distilbert": 66_362_880,
    "gpt2_small": 124_439_808,
    "gpt2_medium": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "gpt3_small": 125_226_240,
    "gpt3_medium": 355_871_744,
    "gpt3_large": 760_300_032,
    "gpt3_xl": 1_517_123_584,
    "gpt3_2_7b": 2_651_553_280,
    "gpt3_6_7b": 6_658_404_352,
    "gpt3_13b": 12_936_488_380,
    "gpt3_175b": 174_604_259_328,
    "t5_small": 60_506_624,
    "t5_base": 222_903_552,
    "llama_7b": 6_738_415_616,
    "transformer_base": 63_045_632,
    "transformer_big": 214_171_648,
    "longformer_base": 148_659_456,
    "bigbird_base": 127_468_800,
    "linformer_base": 124_645_632 + 12 * 2 * 512 * 256,  # RoBERTa's and the sums
    "performer_base": 124_645_632 + (4096 - 512) * 768,  # RoBERTa's, more positions
    "vit_base": 85_798_656,
    "classifier_small": 5_289_472,
    "phone_classifier": 6_885_888,
    "phone_embedder": 11_629_696,
    "phone_next_word": 11_113_856,
}
OURS = {"classifier_small", "phone_classifier", "phone_embedder", "phone_next_word"}
# In what a twin may differ from its preset, beside data and training.
SIZES = {
    "name",
    "seed",
    "tokenizer.vocabulary_size",
    "tokenizer.num_sentinels",
    "objective.decoder_length",
    "objective.image_size",
    "objective.labels",
    "model.num_layers",
    "model.hidden_dim",
    "model.embedding_dim",
    "model.max_sequence_length",
    "model.attention.num_heads",
    "model.attention.head_dim",
    "model.attention.window_size",
    "model.attention.block_size",
    "model.attention.rank",
    "model.attention.max_documents",
    "model.attention.num_features",
    "model.position.num_buckets",
    "model.position.max_distance",
    "model.feedforward.intermediate_dim",
    "model.patches.image_size",
    "model.patches.patch_size",
}
TOY = 300_000


def test_there_is_a_preset_and_a_twin_for_every_name() -> None:
    assert {path.stem for path in (CONFIGS / "presets").iterdir()} == set(PARAMETERS)
    assert set(PARAMETERS) <= {path.stem for path in (CONFIGS / "tiny").iterdir()}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_as_published_and_as_the_header_says(name: str) -> None:
    path = CONFIGS / f"presets/{name}.yaml"
    run = load_run(path, with_model=True)
    parts = count_parameters(run.model, count_pieces(run.tokenizer))
    assert sum(parts.values()) == PARAMETERS[name]
    header = path.read_text("utf-8").partition("\nname:")[0]
    (said,) = re.findall(r"^#   parameters  ([\d,]*\d)", header, re.MULTILINE)
    assert said == f"{PARAMETERS[name]:,}"


@pytest.mark.parametrize("name", PARAMETERS)
def test_header_says_what_to_expect_and_the_command(name: str) -> None:
    path = CONFIGS / f"presets/{name}.yaml"
    header = path.read_text("utf-8").partition("\nname:")[0]
    if name not in OURS:
        assert re.search(r", (19|20)\d\d, ", header)
        assert "\n#   cost        " in header
        assert "\n#   score       " in header
    assert f"\n#   transbeam cost configs/presets/{name}.yaml\n" in header
    first, *more = re.findall(r"#   transbeam (run|data|train) (.*)", header)
    command, arguments = first
    key, _, value = arguments.rpartition(" --set ")[2].partition("=")
    # One key makes it a run on the user's own corpus.
    run = load_run(path, [f"{key}={value.strip(chr(39))}"], with_model=True)
    assert key == "data.source.path"
    assert "my" in run.data.source.path
    # What cannot be trained on or exported yet is not promised.
    trained = run.objective.kind == "masked" and run.data.layout.kind == "packed"
    exported = trained and run.tokenizer.kind == "wordpiece"
    assert command == ("run" if exported else "data")
    assert more == ([("train", arguments)] if trained and not exported else [])


@pytest.mark.parametrize("name", PARAMETERS)
def test_twin_has_the_sockets_of_its_preset(name: str) -> None:
    preset = load_run(CONFIGS / f"presets/{name}.yaml", with_model=True)
    twin = load_run(CONFIGS / f"tiny/{name}.yaml", with_model=True)
    theirs, ours = (flatten(run) for run in (preset, twin))
    assert theirs.keys() - ours.keys() <= {k for k in theirs if k.startswith("data.")}
    different = {
        key
        for key in theirs
        if theirs[key] != ours.get(key)
        and not key.startswith(("data.", "training.", "export."))
    }
    assert different <= SIZES
    for key in SIZES & theirs.keys():  # left out in both, or in neither
        assert (theirs[key] is None) == (ours[key] is None), key
    pieces = count_pieces(twin.tokenizer)
    assert sum(count_parameters(twin.model, pieces).values()) < TOY


@pytest.mark.parametrize("name", TWINS)
def test_header_of_a_twin_promises_what_can_be_done(name: str) -> None:
    path = CONFIGS / f"tiny/{name}.yaml"
    run = load_run(path, with_model=True)
    packed = run.objective.kind == "masked" and run.data.layout.kind == "packed"
    # With examples there is something to ask it in the end.
    promised = ["run"] if run.export.examples or packed else ["data"]
    header = path.read_text("utf-8").partition("\nname:")[0]
    commands = rf"#   transbeam (\w+) configs/tiny/{name}.yaml"
    assert re.findall(commands, header) == promised


def made_by_the_header_of(name: str, folder: Path) -> Path:
    """Runs the Python command in a twin's header, and gives the file it makes."""
    lines = (CONFIGS / f"tiny/{name}.yaml").read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if "mkdir -p runs" in line)
    command = [
        line.removeprefix("#   ") for line in lines[start : lines.index("#", start)]
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        "\n".join(command),
        shell=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
    )
    (file,) = (folder / "runs").iterdir()
    return file


def test_images_that_the_header_of_the_twin_makes(tmp_path: Path) -> None:
    run = load_run(CONFIGS / "tiny/vit_base.yaml")
    file = made_by_the_header_of("vit_base", tmp_path)
    assert file.relative_to(tmp_path) == Path(run.data.source.path)
    arrays = np.load(file)
    size = run.objective.image_size
    assert arrays["images"].shape[1:] == (size, size, run.objective.channels)
    assert arrays["images"].dtype == np.uint8
    assert {str(label) for label in arrays["labels"]} == set(run.objective.labels)


@pytest.mark.parametrize("name", ["classifier_small", "phone_classifier"])
def test_texts_that_the_header_of_the_twin_makes(name: str, tmp_path: Path) -> None:
    run = load_run(CONFIGS / f"tiny/{name}.yaml")
    file = made_by_the_header_of(name, tmp_path)
    assert file.relative_to(tmp_path) == Path(run.data.source.path)
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len({row["text"] for row in rows}) == len(rows) == 256
    assert {row["label"] for row in rows} == set(run.objective.labels)
