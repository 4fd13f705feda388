"""Unsupported exports are refused before any work, with file and line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import transbeam
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.loader.export_support import (
    check_export,
    check_tflite_text,
    check_tokenizer,
)
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    PairClassificationConfig,
    PairRegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)

TEXTS = "name: x\ndata:\n  source: {kind: text, path: x}\n"
TABLE = TEXTS.replace("text, path: x", "csv, path: x, columns: {text: t, label: l}")
CLASSIFIER = TABLE + "objective: {kind: classification, labels: [a, b]}\n"
REGRESSION = TABLE + "objective: {kind: regression}\n"
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
PIPED = "export: {mediapipe: true}\n"
WITH_TEXT = "export: {tflite_text: true}\n"
IMAGES = (
    TEXTS.replace("text", "arrays")
    + "objective: {kind: image_classification, labels: [a, b], channels: 4}\n"
    + "model: {patches: {num_channels: 4}, max_sequence_length: 197}\n"
)
UNIGRAM = TEXTS + "tokenizer:\n  kind: unigram\n  specials: albert\n"
BPE = TEXTS + "tokenizer: {kind: byte_bpe, specials: roberta}\n"
CASED = TEXTS + "tokenizer: {kind: wordpiece, lowercase: false}\n"
T5 = CASED.replace("wordpiece, lowercase: false", "unigram")
FOLDED = UNIGRAM + "  normalization: nmt_nfkc_cf\n"
TWO_LINES = CLASSIFIER.replace("[a, b]", '["a\\nb", c]')
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
        (check_export, BPE + WITH_TEXT, "f:5: export.tflite_text=True: tokenizer."),
        (check_export, UNIGRAM + WITH_TEXT, "f:7: export.tflite_text=True: tokenizer."),
        (check_export, CAUSAL + WITH_TEXT, "f:6: export.tflite_text=True: objective."),
        (check_export, CAUSAL + PIPED, "f:4: objective.kind=causal: MediaPipe Tasks"),
        (check_export, TWO_LINES + PIPED, r"f:4: objective.labels: 'a\nb' is of more"),
        (check_export, BPE + PIPED, "f:4: tokenizer.kind=byte_bpe: the vocabulary is"),
        (check_export, CASED + PIPED, "f:4: tokenizer.kind=wordpiece: the vocabulary "),
        (check_export, UNIGRAM + PIPED, "f:5: tokenizer.kind=unigram: the vocabulary "),
        (check_export, T5 + PIPED, "f:4: tokenizer.kind=unigram: the vocabulary does"),
        (check_tokenizer, NOWHERE, "f:4: tokenizer.path=nowhere/vocab.txt: there is"),
    ],
)
def test_refused_with_its_place(rule, text: str, said: str) -> None:
    parse_run(text, "f", with_model=True)  # records can be made, a model be built
    with pytest.raises(ConfigError) as caught:
        parse_run(text, "f", with_model=True, rules=[rule])
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "key"),
    [(TEXTS, "tflite_text"), (TEXTS, "mediapipe"), (CAUSAL, "litert_lm")],
)
def test_what_is_made_of_tflite_files_needs_one(text: str, key: str) -> None:
    text += "export:\n  tflite: []\n"
    parse_run(text, "f", with_model=True, rules=[check_export])
    match = rf"f:\d: export\.{key}=True is made of .* that is empty\. Name a variant"
    with pytest.raises(ConfigError, match=match):
        parse_run(f"{text}  {key}: true\n", "f", rules=[check_export])


def test_a_tokenizer_is_inside_of_every_variant_but_int8() -> None:
    for variants in ("[int8, float16]", "[dynamic_int8]"):
        text = f"{TEXTS}export: {{tflite_text: true, tflite: {variants}}}\n"
        parse_run(text, "f", with_model=True, rules=[check_export])
    text = f"{TEXTS}export: {{tflite_text: true, tflite: [int8]}}\n"
    match = r"f:4: export\.tflite_text=True: export\.tflite names int8 alone.*dynamic"
    with pytest.raises(ConfigError, match=match):
        parse_run(text, "f", with_model=True, rules=[check_export])


@pytest.mark.parametrize(
    "objective",
    [
        SentencePairsConfig(task="next_sentence"),
        PairClassificationConfig(labels=("no", "yes")),
        PairRegressionConfig(),
        TokenClassificationConfig(labels=("O", "B-PER")),
        SpanQAConfig(),
    ],
)
def test_who_reads_more_than_a_text_takes_no_text_alone(objective: Objective) -> None:
    run = parse_run(TEXTS + WITH_TEXT, "f")
    match = f"objective.kind={objective.kind} does not read one text at a time"
    with pytest.raises(ConfigError, match=match):
        check_tflite_text(replace(run, objective=objective))


def test_allowed() -> None:
    for text in (TEXTS, NOWHERE, CLASSIFIER, REGRESSION):
        # What a tokenizer that is brought along is of, its files will say.
        parse_run(text + WITH_TEXT, "f", with_model=True, rules=[check_export])
    for text in (TEXTS, FOLDED, NOWHERE, CLASSIFIER):
        parse_run(text + PIPED, "f", with_model=True, rules=[check_export])
    for text in (TEXTS, UNIGRAM, NOWHERE):
        parse_run(text, "f", with_model=True, rules=[check_export])
    parse_run(UNIGRAM, "f", rules=[check_tokenizer])


@pytest.mark.parametrize("text", [TEXTS, CAUSAL, SEQ2SEQ])
def test_files_for_phones_of_every_kind(text: str) -> None:
    run = parse_run(text, "f", with_model=True, rules=[check_export])
    assert run.export.tflite


@pytest.mark.parametrize("sizes", ["[]", "[16, 0]"])
def test_pieces_of_a_prompt_have_a_token_at_least(sizes: str) -> None:
    with pytest.raises(ConfigError, match=r"f:7: export: tflite_prefill=.* expected"):
        parse_run(f"{CAUSAL}export:\n  tflite_prefill: {sizes}\n", "f")


def test_no_slots_are_needed_without_a_file_for_phones() -> None:
    parse_run(f"{KERNEL}export: {{tflite: []}}\n", "f", rules=[check_export])


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        (command, text, said)
        for command in ("run", "export")
        for text, said in (
            (IMAGES, UNEXPORTED),
            (KERNEL, "f:5: model.attention.kind=kernel: such a decoder"),
            (BPE + WITH_TEXT, "f:5: export.tflite_text=True: tokenizer.kind=byte_bpe"),
        )
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
        (KERNEL, ["f:5: model.attention.kind=kernel: such a decoder"]),
        (UNIGRAM, []),
        (CAUSAL + WITH_TEXT, ["f:6: export.tflite_text=True: objective.kind=causal"]),
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


@pytest.mark.parametrize(
    ("text", "pooling"), [(TEXTS, "last"), (TEXTS, "end_token"), (CAUSAL, "first")]
)
def test_embeddings_of_a_token_that_does_not_see_the_text(text, pooling):
    run = parse_run(f"{text}export: {{embedding_pooling: {pooling}}}\n", "f")
    with pytest.raises(ConfigError, match=f"embedding_pooling={pooling} does not go"):
        check_export(run)


ON_DECODER = CLASSIFIER + (
    "model: {kind: decoder, attention: {kind: kernel}, position: {kind: none}}\n"
)


def test_a_classifier_on_a_decoder_needs_no_cache():
    check_export(parse_run(ON_DECODER, "f", with_model=True))


def test_mediapipe_frames_no_text_for_a_decoder():
    run = parse_run(f"{ON_DECODER}export: {{mediapipe: true}}\n", "f", with_model=True)
    with pytest.raises(ConfigError, match=r"^model\.kind=decoder: MediaPipe puts"):
        check_export(run)
