"""What this version cannot do is said before anything is begun, by file and line."""

import json
from pathlib import Path

import pytest

import transbeam
from configs.abilities import check_export, check_tokenizer, phone_variants
from configs.errors import ConfigError
from configs.load import parse_run

TEXTS = "name: x\ndata:\n  source: {kind: text, path: x}\n"
CAUSAL = TEXTS + "objective: {kind: causal}\nmodel: {kind: decoder}\n"
SEQ2SEQ = (
    TEXTS
    + "objective: {kind: span_corruption}\ntokenizer: {kind: unigram}\n"
    + "model: {kind: seq2seq}\n"
)
KERNEL = CAUSAL.replace(
    "kind: decoder", "kind: decoder, attention: {kind: kernel}, position: {kind: none}"
)
PAIRED_KERNEL = SEQ2SEQ.replace(
    "kind: seq2seq", "kind: seq2seq, decoder_attention: {kind: kernel}"
)
LONG_CACHE = CAUSAL + "export: {tflite_cache: 1000}\n"
PACKED = "export: {litert_lm: true}\n"
IMAGES = (
    TEXTS
    + "objective: {kind: image_classification, labels: [a, b], channels: 4}\n"
    + "model: {patches: {num_channels: 4}, max_sequence_length: 197}\n"
)
UNIGRAM = TEXTS + "tokenizer:\n  kind: unigram\n  specials: albert\n"
NOWHERE = TEXTS + "tokenizer: {kind: pretrained, path: nowhere/vocab.txt}\n"

UNEXPORTED = "f:4: objective.channels=4: this version of Transbeam exports only"


@pytest.mark.parametrize(
    ("rule", "text", "said"),
    [
        (check_export, IMAGES, UNEXPORTED),
        (check_export, KERNEL, "f:5: model.attention.kind=kernel: such a decoder"),
        (check_export, PAIRED_KERNEL, "f:6: model.decoder_attention.kind=kernel: such"),
        (check_export, LONG_CACHE, "f:6: export.tflite_cache=1000 is more than"),
        (check_export, SEQ2SEQ + PACKED, "f:7: export.litert_lm=True does not go"),
        (check_tokenizer, NOWHERE, "f:4: tokenizer.path=nowhere/vocab.txt: there is"),
    ],
)
def test_refused_with_its_place(rule, text: str, said: str) -> None:
    parse_run(text, "f", with_model=True)  # records can be made, a model be built
    with pytest.raises(ConfigError) as caught:
        parse_run(text, "f", with_model=True, rules=[rule])
    assert str(caught.value).startswith(said)


def test_allowed() -> None:
    for text in (TEXTS, UNIGRAM, NOWHERE):
        parse_run(text, "f", with_model=True, rules=[check_export])
    parse_run(UNIGRAM, "f", rules=[check_tokenizer])


@pytest.mark.parametrize("text", [TEXTS, CAUSAL, SEQ2SEQ])
def test_files_for_phones_of_every_kind(text: str) -> None:
    run = parse_run(text, "f", with_model=True, rules=[check_export])
    assert run.export.tflite
    assert phone_variants(run) == run.export.tflite


@pytest.mark.parametrize("sizes", ["[]", "[16, 0]"])
def test_pieces_of_a_prompt_have_a_token_at_least(sizes: str) -> None:
    with pytest.raises(ConfigError, match=r"f:7: export: tflite_prefill=.* expected"):
        parse_run(f"{CAUSAL}export:\n  tflite_prefill: {sizes}\n", "f")


def test_no_slots_are_needed_without_a_file_for_phones() -> None:
    parse_run(f"{KERNEL}export: {{tflite: []}}\n", "f", rules=[check_export])


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("run", IMAGES, UNEXPORTED),
        ("export", IMAGES, UNEXPORTED),
    ],
)
def test_commands_refuse_before_they_begin(
    tmp_path: Path, capsys, command: str, text: str, said: str
) -> None:
    file = tmp_path / "f"
    file.write_text(text)
    run_folder = tmp_path / "run"
    assert transbeam.main([command, str(file), "--run", str(run_folder)]) == 2
    assert f"error: {tmp_path}/{said}" in capsys.readouterr().err
    assert not run_folder.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IMAGES, [UNEXPORTED]),
        (UNIGRAM, []),
        (NOWHERE, ["f:4: tokenizer.path=nowhere/vocab.txt: there is"]),
        (TEXTS, []),
    ],
)
def test_check_warns(tmp_path: Path, capsys, text: str, said: list[str]) -> None:
    file = tmp_path / "f"
    file.write_text(text)
    assert transbeam.main(["check", str(file), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["name"] == "x"
    lines = err.splitlines()
    assert len(lines) == len(said)
    for line, begin in zip(lines, said, strict=True):
        assert line.startswith(f"warning: {tmp_path}/{begin}")
