"""The files beside a tokenizer agree with it, or there is none and why is said."""

import json
from pathlib import Path

import pytest

import transbeam
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.trainer.importing.hugging_face_checkpoints import (
    BYTES,
    PIECES,
    write_bert,
    write_gpt2,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.hf_config import HFConfig
from transbeam.pipeline.tokenizers.files.import_tokenizer import import_tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer
from transbeam.pipeline.tokenizers.files.tokenizer_json_writer import tokenizer_json
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel
from transbeam.trainer.importing.tokenizer_checks import check_framing, check_settings

BERT = WordPieceModel(pieces=tuple(PIECES), lowercase=True, strip_accents=True)


def settings(**told: object) -> HFConfig:
    return HFConfig(told, "tokenizer_config.json")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"tokenize_chinese_chars": False}, "tokenize_chinese_chars is False"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize is False, expected True"),
        ({"clean_text": False}, "clean_text is False, expected True"),
        ({"never_split": ["foo"]}, "never_split is ['foo']"),
        ({"word_tokenizer_type": "mecab"}, "word_tokenizer_type is 'mecab'"),
        (
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "tokenizer_class is 'BertJapaneseTokenizer', expected one of BertTokenizer",
        ),
    ],
)
def test_settings_of_wordpiece_that_ours_lacks(tmp_path, told, said):
    with pytest.raises(ArtifactError) as error:
        check_settings(tmp_path, settings(**told), BERT)
    assert str(error.value).startswith(f"tokenizer_config.json: {said}")


def test_settings_that_say_what_ours_does(tmp_path):
    told = settings(
        tokenizer_class="BertTokenizerFast", never_split=None, do_lower_case=True
    )
    check_settings(tmp_path, told, BERT)


def test_a_byte_bpe_that_splits_otherwise(tmp_path):
    model = import_tokenizer(write_gpt2(tmp_path) / "vocab.json")
    check_settings(tmp_path, settings(tokenizer_class="RobertaTokenizerFast"), model)
    with pytest.raises(ArtifactError, match="tokenizer_class is 'Qwen2Tokenizer', exp"):
        check_settings(tmp_path, settings(tokenizer_class="Qwen2Tokenizer"), model)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"do_lower_case": False}, "do_lower_case is False, expected true, as tok"),
        ({"strip_accents": False}, "strip_accents is False, expected true, as tok"),
    ],
)
def test_a_tokenizer_json_that_disagrees(tmp_path, told, said):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ArtifactError, match=said):
        check_settings(tmp_path, settings(**told), BERT)


def test_a_space_before_a_text(command, tmp_path):
    folder = write_gpt2(tmp_path / "gpt2")
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    command("import", folder, "--run", tmp_path / "run")
    tokenizer = read_tokenizer(tmp_path / "run/imported/tokenizer").model
    assert tokenizer.build().tokenize(["the"]).to_list() == [
        [BYTES.index("Ġth"), BYTES.index("e")]
    ]


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("piece", ["[CLS]", {"content": "[CLS]", "lstrip": False}])
def test_special_pieces_that_are_others(tmp_path, file, piece):
    (tmp_path / file).write_text(json.dumps({"sep_token": piece, "pad_token": "[PAD]"}))
    path = tmp_path / "tokenizer_config.json"
    told = HFConfig.of_file(path) if path.is_file() else settings()
    with pytest.raises(ArtifactError, match=r"sep_token is .*, expected '\[SEP\]'"):
        check_framing(tmp_path, told, BERT)


CLS, SEP = ({"SpecialToken": {"id": piece}} for piece in ("[CLS]", "[SEP]"))
TEXT = {"Sequence": {"id": "A"}}
TEMPLATE = {"type": "TemplateProcessing"}


@pytest.mark.parametrize(
    "around",
    [
        {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        {**TEMPLATE, "single": [CLS, TEXT, SEP]},
        {
            "type": "Sequence",
            "processors": [
                {"type": "ByteLevel"},
                {**TEMPLATE, "single": [CLS, TEXT, SEP]},
            ],
        },
    ],
)
def test_pieces_around_a_text_as_ours(tmp_path, around):
    content = {**tokenizer_json(BERT), "post_processor": around}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    check_framing(tmp_path, settings(), BERT)


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (None, "puts nothing before a text and nothing behind it, expected '[CLS]'"),
        ({**TEMPLATE, "single": [TEXT, SEP]}, "puts nothing before a text and '[SEP]'"),
        ({**TEMPLATE, "single": [SEP, TEXT, CLS]}, "puts '[SEP]' before"),
        ({**TEMPLATE, "single": [CLS, TEXT, SEP, SEP]}, "and '[SEP][SEP]' behind it"),
        ({**TEMPLATE, "single": 5}, "puts nothing before"),
    ],
)
def test_pieces_around_a_text_that_are_others(tmp_path, around, said):
    content = {**tokenizer_json(BERT), "post_processor": around}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError) as error:
        check_framing(tmp_path, settings(), BERT)
    assert said in str(error.value)


def imported(folder: Path, run: Path, capsys) -> str:
    assert transbeam.main(["import", str(folder), "--run", str(run)]) == 0
    out, err = capsys.readouterr()
    return " ".join((out + err).split())


def test_a_disagreement_is_said_and_no_tokenizer_imported(tmp_path, capsys):
    folder = write_bert(tmp_path / "bert", "bert_masked")
    (folder / "special_tokens_map.json").write_text('{"cls_token": "[SEP]"}')
    said = imported(folder, tmp_path / "run", capsys)
    assert "no tokenizer is imported: " in said
    assert "special_tokens_map.json: cls_token is '[SEP]', expected '[CLS]'" in said
    assert not (tmp_path / "run/imported/tokenizer").exists()


def test_rows_that_no_piece_has_are_said(tmp_path, capsys):
    folder = write_bert(tmp_path / "bert", "bert_masked")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES[:80]))
    said = imported(folder, tmp_path / "run", capsys)
    assert f"{len(PIECES)} rows and the tokenizer 80 pieces: the last 20 rows" in said


@pytest.mark.parametrize(
    ("name", "kind", "is_said"),
    [
        ("roberta_classifier", "pair_classification", True),
        ("roberta_classifier", "classification", False),
        ("bert_classifier", "pair_classification", False),
    ],
)
def test_two_pieces_between_texts_are_said(tmp_path, capsys, name, kind, is_said):
    folder = CASES[name].write(tmp_path / "theirs")
    run = tmp_path / "run"
    told = ["--set", f"objective.kind={kind}"]
    assert transbeam.main(["import", str(folder), "--run", str(run), *told]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert ("RoBERTa was trained with `</s></s>` between two texts" in said) == is_said


@pytest.mark.parametrize(
    ("single", "said"),
    [
        ([TEXT], []),
        ([{"SpecialToken": {"id": "<|endoftext|>"}}, TEXT], ["add_bos_token is not"]),
        ([TEXT, {"SpecialToken": {"id": "<|endoftext|>"}}], ["add_eos_token is not"]),
    ],
)
def test_pieces_around_a_text_that_is_written_on(tmp_path, capsys, single, said):
    folder = write_gpt2(tmp_path / "gpt2")
    model = import_tokenizer(folder / "vocab.json")
    around = {**TEMPLATE, "single": single}
    content = {**tokenizer_json(model), "post_processor": around}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    told = imported(folder, tmp_path / "run", capsys)
    for words in ("add_bos_token is not", "add_eos_token is not"):
        assert (words in told) == (words in said)


@pytest.mark.parametrize(("special", "is_said"), [(True, True), (False, False)])
def test_special_tokens_that_no_text_has_are_said(tmp_path, capsys, special, is_said):
    """A template of chats writes them, and they are cut like other text."""
    folder = write_gpt2(tmp_path / "gpt2")
    end = BYTES.index("<|endoftext|>")
    told = {
        str(end): {"content": "<|endoftext|>", "special": True},
        "257": {"content": "Ġth", "special": special},
    }
    content = json.dumps({"added_tokens_decoder": told})
    (folder / "tokenizer_config.json").write_text(content)
    said = imported(folder, tmp_path / "run", capsys)
    assert ("special tokens that are not recognized in texts" in said) == is_said
    assert ("are ordinary text: 'Ġth' (257)" in said) == is_said
