"""Presets for phones are as small there as their headers say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from tests.serving.untrained import untrained
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.model.cost.report import count_cost
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import save_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.serving.base.trained_run import TOKENIZER, TrainedRun, build
from transbeam.serving.phone.conversion.tflite_converter import write_tflite

PRESETS = Path(__file__).parents[3] / "configs/presets"


def file_of(run: RunConfig, folder: Path) -> bytes:
    """The file in dynamic int8, of random weights."""
    number = run.tokenizer.vocabulary_size
    model = build(run, number)
    tokenizer = tokenizer_of(number)
    save_tokenizer(folder / TOKENIZER, tokenizer)
    trained = TrainedRun(run, tokenizer.build(), model)
    files = write_tflite(trained, folder, folder / "made")
    return files["dynamic_int8"].read_bytes()


def tokenizer_of(number: int) -> WordPieceModel:
    """Pieces of no meaning."""
    pieces = (*SPECIAL_PIECES, *(f"piece{i}" for i in range(number)))[:number]
    return WordPieceModel(pieces=pieces, lowercase=True, strip_accents=True)


def test_a_narrow_table_on_a_phone_answers_as_keras(tmp_path: Path) -> None:
    trained = untrained("phone_embedder", tmp_path)
    export = replace(trained.config.export, tflite=("float32",))
    trained = replace(trained, config=replace(trained.config, export=export))
    save_tokenizer(tmp_path / TOKENIZER, tokenizer_of(100))
    file = write_tflite(trained, tmp_path, tmp_path / "made")["float32"]
    fill_mask = Interpreter(str(file), num_threads=1).get_signature_runner("fill_mask")
    real, length = 9, trained.config.model.max_sequence_length
    ids = np.zeros((1, length), np.int32)
    ids[0, :real] = np.arange(5, 5 + real)
    mask = (np.arange(length) < real)[None].astype(np.int32)
    positions = np.array([[1, 2, 3, 4, 5, 6, 7, 8]], np.int32)
    found = fill_mask(token_ids=ids, padding_mask=mask, masked_positions=positions)
    alone = {"token_ids": ids[:, :real], "padding_mask": mask[:, :real]}
    expected = trained.model({**alone, "masked_positions": positions})["logits"]
    np.testing.assert_allclose(found["logits"], expected, rtol=0, atol=2e-4)


MOST = {"phone_classifier": 10, "phone_embedder": 15, "phone_next_word": 15}  # MB


def weights_of(run: RunConfig) -> int:
    return count_cost(run)["parameters"]["total_with_heads"]


@pytest.mark.parametrize("name", MOST)
def test_the_header_allows_a_byte_for_each_weight_and_little_more(name: str) -> None:
    path = PRESETS / f"{name}.yaml"
    header = path.read_text("utf-8").partition("\nname:")[0].replace("\n# ", " ")
    (said,) = re.findall(r"at most (\d+) MB", header)
    assert int(said) == MOST[name]
    weights = weights_of(load_run(path, with_model=True))
    assert 0.5 * MOST[name] < weights / 1_000_000 < 0.98 * MOST[name]


@pytest.mark.thorough(
    instead="test_the_header_allows_a_byte_for_each_weight_and_little_more "
    "test_every_variant_is_as_small_as_its_bits"
)
@pytest.mark.parametrize("name", MOST)
def test_the_file_is_as_small_as_the_header_says(name: str, tmp_path: Path) -> None:
    run = load_run(PRESETS / f"{name}.yaml", with_model=True)
    made = len(file_of(run, tmp_path))
    assert weights_of(run) < made < MOST[name] * 1_000_000
