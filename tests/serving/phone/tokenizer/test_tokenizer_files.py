"""The files next to the model: complete data of small size, and golden ids."""

import json
from dataclasses import replace

import pytest

from tests.pipeline.tokenizers.sentencepiece_models import train
from tests.serving.phone.tokenizer.sample_tokenizers import (
    NAMES,
    WITH_GOLDEN,
    data,
    engine,
    handed_over,
    model,
    reference,
)
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.serving.phone.tokenizer.golden_ids import FILE as GOLDEN
from transbeam.serving.phone.tokenizer.golden_ids import golden_ids
from transbeam.serving.phone.tokenizer.sources.tokenizer import Tokenizer
from transbeam.serving.phone.tokenizer.tokenizer_data import (
    make_tokenizer_data,
)
from transbeam.serving.phone.tokenizer.tokenizer_files import SOURCES, write_tokenizer

NAME = "wordpiece (True, False)"


def test_the_folder_has_all_that_an_application_needs(tmp_path):
    made = handed_over(NAME)
    saved = made / "saved"
    write_tokenizer(saved, tmp_path / "over")
    names = {"phone_tokenizer.json", "golden_ids.json", *SOURCES}
    files = [tmp_path / "over/phone_tokenizer.json", tmp_path / "over/golden_ids.json"]
    assert {file.name for file in (tmp_path / "over").iterdir()} == names
    written, golden = (json.loads(file.read_text("utf-8")) for file in files)
    assert written["fingerprint"] == tokenizer_fingerprint(saved)
    assert Tokenizer.load(files[0]).disagreements(golden) == []
    assert golden == golden_ids(engine(NAME))
    # Written twice it is the same.
    for file in files:
        assert file.read_bytes() == (made / file.name).read_bytes()


@pytest.mark.parametrize("name", WITH_GOLDEN)
def test_golden_ids_are_found_and_a_wrong_one_is_named(name):
    golden = json.loads((handed_over(name) / GOLDEN).read_text("utf-8"))
    tokenizer = reference(name)
    assert tokenizer.disagreements(golden) == []
    # Some rows are filled up, and some are cut.
    rows = [case for case in golden["cases"] if "token_ids" in case]
    assert bool(rows) == (engine(name).special.begin is not None)
    if rows:
        assert {case["truncated"] for case in rows} == {True, False}
        assert {len(case["token_ids"]) for case in rows} == {golden["length"]}
        assert {0, 1} == {i for case in rows for i in case["segment_ids"]}
    for case in golden["cases"]:
        for part in case.keys() - {"text", "second_text", "masks"}:
            spoiled = case | {part: None}
            (found,) = tokenizer.disagreements(golden | {"cases": [spoiled]})
            assert f": {part} is " in found


@pytest.mark.parametrize("name", NAMES)
def test_data_are_small(name):
    content = json.dumps(data(name), ensure_ascii=False, separators=(",", ":")).encode()
    # The rules of SentencePiece, as it ships them, are a quarter of a megabyte.
    most = 340_000 if "normalizer" in data(name) else 60_000
    assert len(content) < most


@pytest.mark.parametrize("kind", ["word", "char"])
def test_other_types_of_sentencepiece_are_refused(kind, tmp_path):
    proto = train(model_type=kind, vocab_size=60)
    save_tokenizer(tmp_path / "tokenizer", SentencePieceModel(proto=proto))
    with pytest.raises(ArtifactError, match=f"of the type {kind}, expected unigram"):
        write_tokenizer(tmp_path / "tokenizer", tmp_path)


def test_rules_for_the_way_back_are_refused(tmp_path):
    rules = tmp_path / "rules.tsv"
    rules.write_text("61\t62\n")
    proto = train(denormalization_rule_tsv=str(rules))
    with pytest.raises(ArtifactError, match="has rules that change a text back"):
        make_tokenizer_data(SentencePieceModel(proto=proto))


def test_of_a_pair_that_is_there_twice_the_last_counts():
    learned = model("byte_bpe")
    again = replace(learned, merges=(*learned.merges, learned.merges[0]))
    merges = make_tokenizer_data(again)["merges"]
    assert len(merges) == len(learned.merges)
    assert merges[-1] == " ".join(learned.merges[0])
    text = "the banana and the others"
    assert (
        Tokenizer(make_tokenizer_data(again)).encode(text)
        == (again.build().tokenize([text]).to_list()[0])
    )
