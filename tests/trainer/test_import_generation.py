"""A checkpoint's generation settings are taken over, or named if they are not."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import SentencePieceProcessor

import transbeam
from configs.errors import ArtifactError
from configs.generation import BeamConfig, ContrastiveConfig, GreedyConfig, SampleConfig
from configs.load import load_run
from pipeline.tokenizers.artifact import read_tokenizer
from serving.tasks.continuation import Continuation
from serving.trained import load_trained
from tests.pipeline.tokenizers.sentence_pieces import train
from tests.trainer.checkpoints import BYTES, case_of, write_gpt2
from trainer.import_generation import read_generation

END, NEWLINE = BYTES.index("<|endoftext|>"), BYTES.index("Ċ")


def say(folder: Path, name: str, **told: object) -> None:
    (folder / name).write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("told", "method"),
    [
        ({}, GreedyConfig()),
        # Without drawing none of them has a say.
        ({"temperature": 0.5, "top_k": 3, "top_p": 0.5}, GreedyConfig()),
        (
            {"do_sample": True, "temperature": 0.5, "top_p": 0.8, "min_p": 0.1},
            SampleConfig(temperature=0.5, top_k=50, top_p=0.8, min_p=0.1),
        ),
        ({"do_sample": True, "top_k": 0}, SampleConfig(top_k=0)),
        (
            {"num_beams": 3, "length_penalty": 0.6},
            BeamConfig(num_beams=3, length_penalty=0.6, early_stopping=False),
        ),
        (
            {"penalty_alpha": 0.5, "top_k": 6},
            ContrastiveConfig(top_k=6, penalty=0.5),
        ),
    ],
)
def test_the_method(tmp_path, told, method):
    say(tmp_path, "generation_config.json", **told)
    found = read_generation(tmp_path, {})
    assert found.evaluation.method == method
    assert found.left_out == {}


def test_what_has_no_say_here_is_named(tmp_path):
    neutral = {"transformers_version": "4.40", "use_cache": True, "max_length": 20}
    left_out = {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "max_length": 99}
    beams = {"do_sample": True, "num_beams": 2}
    say(tmp_path, "generation_config.json", **{**neutral, **left_out, **beams})
    assert read_generation(tmp_path, {}).left_out == {**left_out, "num_beams": 2}


def test_a_value_out_of_range(tmp_path):
    say(tmp_path, "generation_config.json", do_sample=True, top_p=2.0)
    with pytest.raises(ArtifactError, match=r"generation_config.json: top_p=2.0 is"):
        read_generation(tmp_path, {})


@pytest.mark.parametrize(
    ("told", "of_config", "ends"),
    [
        (None, {"eos_token_id": 7}, (7,)),
        (None, {"eos_token_id": (7, 8)}, (7, 8)),
        ({}, {"eos_token_id": 7}, (7,)),
        ({"eos_token_id": [3, 4]}, {"eos_token_id": 7}, (3, 4)),
        ({"eos_token_id": -1}, {}, ()),
        (None, {}, ()),
    ],
)
def test_where_a_text_ends(tmp_path, told, of_config, ends):
    if told is not None:
        say(tmp_path, "generation_config.json", **told)
    assert read_generation(tmp_path, of_config).ends == ends


def test_any_of_the_ids_ends_a_text_and_is_no_part_of_it(command, tmp_path):
    folder = write_gpt2(tmp_path / "gpt2")
    command("import", folder, "--run", tmp_path / "plain")
    prompt = tf.constant(["t th"])
    written = Continuation(load_trained(tmp_path / "plain")).answer(prompt)
    ids = written["token_ids"].numpy()[0, : written["length"].numpy()[0]].tolist()
    stop = next(i for i in ids[1:] if i != ids[0])  # in the middle of the text
    number = ids.index(stop) + 1
    say(folder, "generation_config.json", eos_token_id=[END, stop])
    command("import", folder, "--run", tmp_path / "ends")
    trained = load_trained(tmp_path / "ends")
    task = Continuation(trained)
    for found in (task.answer(prompt), task.search(prompt, *map(tf.constant, ALONE))):
        assert found["length"].numpy().tolist() == [number]
        np.testing.assert_array_equal(found["token_ids"][0, :number], ids[:number])
        assert found["finished"].numpy().tolist() == [True]
        text = trained.tokenizer.detokenize(tf.ragged.constant([ids[: number - 1]]))
        assert found["generated_text"].numpy()[0].decode() == text.numpy()[0].decode(
            "utf-8", "replace"
        )
    # In a prompt it is text like any other.
    piece = trained.tokenizer.detokenize(tf.ragged.constant([[stop]])).numpy()
    assert stop in task.tokenize(piece)["token_ids"].numpy()


# `max_new_tokens`, `num_beams` and `length_penalty` of a search that is greedy.
ALONE = ([-1], [1], [1.0])


def test_it_is_kept_in_the_run(command, tmp_path):
    folder = write_gpt2(tmp_path / "gpt2")
    say(folder, "tokenizer_config.json", chat_template="{{ messages }}")
    say(folder, "generation_config.json", eos_token_id=[END, NEWLINE], max_new_tokens=9)
    command("import", folder, "--run", tmp_path / "run")
    for place in ("imported/tokenizer", "data/tokenizer"):
        framing = read_tokenizer(tmp_path / "run" / place).model.framing
        assert framing.stop_ids == (NEWLINE,)
        assert framing.chat_template == "{{ messages }}"
    assert load_run(tmp_path / "run/run.yaml").evaluation.max_new_tokens == 9


@pytest.mark.parametrize(
    ("file", "said", "template"),
    [
        ("in a file", "in the settings", "in a file"),
        (None, [{"name": "default", "template": "the usual"}], "the usual"),
        (None, [{"name": "tools", "template": "another"}], None),
        (None, None, None),
    ],
)
def test_the_template_of_a_conversation(command, tmp_path, file, said, template):
    folder = write_gpt2(tmp_path / "gpt2")
    if file is not None:
        (folder / "chat_template.jinja").write_text(file)
    say(folder, "tokenizer_config.json", chat_template=said)
    command("import", folder, "--run", tmp_path / "run")
    tokenizer = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    assert tokenizer.framing.chat_template == template


def test_what_cannot_be_taken_over_is_said(tmp_path, capsys):
    folder = write_gpt2(tmp_path / "gpt2")
    say(folder, "tokenizer_config.json", add_bos_token=True, add_eos_token=True)
    say(folder, "generation_config.json", eos_token_id=9999, typical_p=0.5)
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "generation_config.json: not taken over: typical_p=0.5" in said
    assert "none of the 259 pieces has the id 9999, so it ends no text" in said
    assert "add_bos_token is not taken over" in said
    assert "add_eos_token is not taken over" in said


@pytest.mark.parametrize(
    ("told", "begins"),
    [({}, True), ({"add_bos_token": True}, True), ({"add_bos_token": False}, False)],
)
def test_the_piece_before_a_text_of_llama(command, tmp_path, told, begins):
    content = train(bos_id=3)
    folder = tmp_path / "llama"
    case_of("llama", pieces_in(content)).write(folder)
    (folder / "tokenizer.model").write_bytes(content)
    say(folder, "tokenizer_config.json", **told)
    command("import", folder, "--run", tmp_path / "run")
    task = Continuation(load_trained(tmp_path / "run"))
    ids = task.tokenize(tf.constant(["the"]))["token_ids"].numpy()[0].tolist()
    assert (ids[0] == 3) == begins


def pieces_in(content: bytes) -> int:
    return SentencePieceProcessor(model_proto=content).get_piece_size()
