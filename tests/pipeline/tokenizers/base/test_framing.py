"""Rules beside the pieces are kept with them, and leave older folders alone."""

from dataclasses import replace

import pytest
import yaml

from tests.pipeline.tokenizers.sentencepiece_models import train
from transbeam.configs.base.errors import ArtifactError
from transbeam.pipeline.tokenizers.base.framing import Framing
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    read_tokenizer,
    save_tokenizer,
    tokenizer_fingerprint,
)
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.training.vocabulary_trimming import trim
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

BYTES = ByteBPEModel(
    pieces=(*ALPHABET, "ĊĊ", "th", "the", "<|endoftext|>", "<|im_end|>"),
    merges=(("Ċ", "Ċ"), ("t", "h"), ("th", "e")),
)
MODELS = {
    "wordpiece": WordPieceModel(
        pieces=(*SPECIAL_PIECES, "a", "##b"), lowercase=False, strip_accents=False
    ),
    "byte_bpe": BYTES,
    "sentencepiece": SentencePieceModel(proto=train()),
}
SAID = Framing(
    add_begin=False, stop_ids=(5, 3), chat_template="{{ bos_token }}\n\u0085é"
)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def test_what_is_said_comes_back(tmp_path, model):
    save_tokenizer(tmp_path, replace(model, framing=SAID))
    assert read_tokenizer(tmp_path).model.framing == SAID
    special = load_tokenizer(tmp_path).special
    assert special == read_tokenizer(tmp_path).special
    assert special.begin is None
    assert {5, 3} <= set(special.ends)


def test_where_nothing_is_said_the_folder_is_as_it_always_was(tmp_path, model):
    save_tokenizer(tmp_path, model)
    metadata = yaml.safe_load((tmp_path / "tokenizer.yaml").read_text())
    assert list(metadata) == [
        *("format_version", "kind", "options", "vocabulary_size"),
        *("special_ids", "files"),
    ]
    assert "stop" not in metadata["special_ids"]
    assert read_tokenizer(tmp_path).special.ends == (model.special.end,)


@pytest.mark.parametrize(
    "framing",
    [Framing(add_begin=False), Framing(stop_ids=(6,)), Framing(chat_template="x")],
)
def test_all_of_it_is_sealed(tmp_path, framing):
    save_tokenizer(tmp_path / "plain", BYTES)
    save_tokenizer(tmp_path / "framed", replace(BYTES, framing=framing))
    plain, framed = (
        tokenizer_fingerprint(tmp_path / name) for name in ("plain", "framed")
    )
    assert plain != framed


def test_a_template_that_was_altered_is_refused(tmp_path):
    save_tokenizer(tmp_path, replace(BYTES, framing=SAID))
    (tmp_path / "chat_template.jinja").write_text("another")
    with pytest.raises(ArtifactError, match="the file was altered or cut short"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "framing", ["all", {"stop_ids": ["5"]}, {"add_begin": 0}, {"stops": [5]}]
)
def test_what_was_never_written_is_refused(tmp_path, framing):
    save_tokenizer(tmp_path, BYTES)
    file = tmp_path / "tokenizer.yaml"
    metadata = {**yaml.safe_load(file.read_text()), "framing": framing}
    file.write_text(yaml.safe_dump(metadata))
    with pytest.raises(ArtifactError, match="expected add_begin, stop_ids,"):
        read_tokenizer(tmp_path)


def test_an_id_of_no_piece_ends_no_text(tmp_path):
    framing = Framing(stop_ids=(len(BYTES.pieces),))
    with pytest.raises(ArtifactError, match="is to end a text, expected ids of the"):
        save_tokenizer(tmp_path, replace(BYTES, framing=framing))


def test_a_trimmed_vocabulary_still_ends_its_texts():
    newline, double, end = (BYTES.pieces.index(p) for p in ("Ċ", "ĊĊ", "<|im_end|>"))
    framing = Framing(stop_ids=(double, newline, end), chat_template="x")
    trimmed = trim(replace(BYTES, framing=framing), {"th": 3}).model
    assert "the" not in trimmed.pieces
    assert [trimmed.pieces[i] for i in trimmed.framing.stop_ids] == [
        *("ĊĊ", "Ċ", "<|im_end|>")
    ]
    assert trimmed.framing.chat_template == "x"
