"""A checkpoint's generation settings are taken over, or named if they are not."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import SentencePieceProcessor

import transbeam
from tests.pipeline.tokenizers.sentencepiece_models import train
from tests.trainer.importing.hugging_face_checkpoints import BYTES, case_of, write_gpt2
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.generation import (
    BeamConfig,
    ContrastiveConfig,
    GreedyConfig,
    SampleConfig,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.serving.base.trained_run import load_trained
from transbeam.serving.signatures.causal import CausalTask
from transbeam.trainer.importing.generation_config import read_generation

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
    written = CausalTask(load_trained(tmp_path / "plain")).answer(prompt)
    ids = written["token_ids"].numpy()[0, : written["length"].numpy()[0]].tolist()
    stop = next(i for i in ids[1:] if i != ids[0])  # in the middle of the text
    number = ids.index(stop) + 1
    say(folder, "generation_config.json", eos_token_id=[END, stop])
    command("import", folder, "--run", tmp_path / "ends")
    trained = load_trained(tmp_path / "ends")
    task = CausalTask(trained)
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


@pytest.mark.parametrize(
    ("name", "content", "template"),
    [
        # As programs that read text see it.
        ("chat_template.jinja", b"\xef\xbb\xbf{{ a }}\r\nb\r\n", "{{ a }}\nb\n"),
        (
            "chat_template.json",
            b'{"chat_template": "of a processor"}',
            "of a processor",
        ),
    ],
)
def test_files_of_a_template(command, tmp_path, name, content, template):
    folder = write_gpt2(tmp_path / "gpt2")
    say(folder, "tokenizer_config.json", chat_template="in the settings")
    (folder / name).write_bytes(content)
    command("import", folder, "--run", tmp_path / "run")
    tokenizer = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    assert tokenizer.framing.chat_template == template


def test_further_templates_are_named(tmp_path, capsys):
    folder = write_gpt2(tmp_path / "gpt2")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text("{{ tools }}")
    assert transbeam.main(["import", str(folder), "--run", str(tmp_path / "r")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "additional_chat_templates: not imported: tool_use.jinja" in said


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"default": "x"}, 'chat_template is {"default": "x"}, expected a Jinja'),
        ([{"a": 1}], 'chat_template is [{"a": 1}], expected templates'),
        ([{"name": "default"}], "expected templates, each with its name"),
        (["x"], "expected templates, each with its name"),
    ],
)
def test_what_is_no_template(tmp_path, capsys, template, said):
    folder = write_gpt2(tmp_path / "gpt2")
    say(folder, "tokenizer_config.json", chat_template=template)
    assert transbeam.main(["import", str(folder), "--run", str(tmp_path / "r")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_settings_from_before_they_had_a_file(tmp_path):
    """Then transformers reads them in `config.json`, among the model's."""
    say(
        *(tmp_path, "config.json"),
        **{"n_layer": 2, "do_sample": True, "top_k": 5, "no_repeat_ngram_size": 3},
        **{"typical_p": 1.0, "min_length": 0, "decoder_start_token_id": 7},
    )
    found = read_generation(tmp_path, {})
    assert found.evaluation.method == SampleConfig(top_k=5)
    assert found.left_out == {"no_repeat_ngram_size": 3}
    assert found.where == str(tmp_path / "config.json")
    assert found.start == 7
    say(tmp_path, "generation_config.json")
    found = read_generation(tmp_path, {})
    assert found.evaluation.method == GreedyConfig()
    assert (found.left_out, found.start) == ({}, 7)


@pytest.mark.parametrize(("start", "is_said"), [(0, False), (5, True)])
def test_another_piece_that_answers_begin_with(tmp_path, capsys, start, is_said):
    content = train(pad_id=0, unk_id=2, bos_id=-1, eos_id=1)
    folder = tmp_path / "t5"
    case_of("t5", pieces_in(content)).write(folder)
    (folder / "spiece.model").write_bytes(content)
    say(folder, "tokenizer_config.json", extra_ids=0)
    say(folder, "generation_config.json", decoder_start_token_id=start)
    assert transbeam.main(["import", str(folder), "--run", str(tmp_path / "r")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    asked = "decoder_start_token_id=5 is not imported: answers begin with '<pad>' (0)"
    assert (asked in said) == is_said


def test_what_cannot_be_taken_over_is_said(tmp_path, capsys):
    folder = write_gpt2(tmp_path / "gpt2")
    say(folder, "tokenizer_config.json", add_bos_token=True, add_eos_token=True)
    say(folder, "generation_config.json", eos_token_id=9999, typical_p=0.5)
    code = transbeam.main(["import", str(folder), "--run", str(tmp_path / "run")])
    assert code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "generation_config.json: not imported: typical_p=0.5" in said
    assert "none of the 259 pieces has the id 9999, so it ends no text" in said
    assert "add_bos_token is not imported" in said
    assert "add_eos_token is not imported" in said


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
    task = CausalTask(load_trained(tmp_path / "run"))
    ids = task.tokenize(tf.constant(["the"]))["token_ids"].numpy()[0].tolist()
    assert (ids[0] == 3) == begins


def pieces_in(content: bytes) -> int:
    return SentencePieceProcessor(model_proto=content).get_piece_size()
