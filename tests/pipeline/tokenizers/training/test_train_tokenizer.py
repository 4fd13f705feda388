"""Every kind of tokenizer can be learned from what its splitter counts, or imported."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import tensorflow as tf

from tests.pipeline.tokenizers.sentencepiece_models import SENTENCES, train
from transbeam.configs.base.errors import ArtifactError, ConfigError, DataError
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.tokenizer import (
    ByteBPEConfig,
    PretrainedConfig,
    UnigramConfig,
    WordPieceConfig,
)
from transbeam.pipeline.tokenizers.base.builtin_chat_templates import (
    find_chat_template,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import ByteBPEModel
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET
from transbeam.pipeline.tokenizers.files.chat_format import with_chat_template
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    load_tokenizer,
    read_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.training.train_tokenizer import (
    fingerprint_pretrained,
    learn_model,
    make_tokenizer,
    word_splitter,
)

CONFIGS = {
    "wordpiece": WordPieceConfig(vocabulary_size=80, num_reserved=2, num_sentinels=3),
    "cased": WordPieceConfig(vocabulary_size=80, lowercase=False),
    "gpt2": ByteBPEConfig(vocabulary_size=290, num_reserved=2, num_sentinels=3),
    "roberta": ByteBPEConfig(vocabulary_size=290, specials="roberta"),
    "t5": UnigramConfig(vocabulary_size=66, character_coverage=1.0, num_sentinels=3),
    "albert": UnigramConfig(vocabulary_size=60, specials="albert"),
    "bytes": UnigramConfig(vocabulary_size=319, byte_fallback=True),
}


@cache
def counted(name):
    words = word_splitter(CONFIGS[name]).words(tf.constant(SENTENCES))
    return Counter(word.decode() for word in words.values.numpy())


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_learned_works_as_a_tokenizer(tmp_path, name):
    config = CONFIGS[name]
    assert fingerprint_pretrained(config) is None
    make_tokenizer(tmp_path, counted(name), config)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == config.vocabulary_size
    ids = tokenizer.tokenize(SENTENCES)
    unknown = tokenizer.special.unknown
    assert ids.values.numpy().tolist().count(unknown) < ids.values.shape[0] / 50
    # What is learned from is what is tokenized: no word is cut at another place.
    assert set(ids.values.numpy()) <= {unknown, *tokenizer.ordinary_ids.tolist()}
    assert len(tokenizer.special.sentinels) == config.num_sentinels
    first = [tokenizer.pieces[i] for i in tokenizer.special.sentinels]
    assert first == [f"<extra_id_{i}>" for i in range(config.num_sentinels)]
    reserved = getattr(config, "num_reserved", 0)
    assert sum(p.startswith("[unused") for p in tokenizer.pieces) == reserved
    special = {i for i in vars(tokenizer.special).values() if isinstance(i, int)}
    set_aside = len(special) + reserved + config.num_sentinels
    assert len(tokenizer.ordinary_ids) == config.vocabulary_size - set_aside


def test_where_the_special_pieces_stand():
    def pieces(name, end):
        config = CONFIGS[name]
        return learn_model(counted(name), config).pieces[:end]

    sentinels = ("<extra_id_0>", "<extra_id_1>", "<extra_id_2>")
    reserved = ("[unused0]", "[unused1]")
    bert = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert pieces("wordpiece", 10) == (*bert, *reserved, *sentinels)
    assert pieces("gpt2", 6) == ("<|endoftext|>", *reserved, *sentinels)
    assert pieces("roberta", 5) == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert pieces("t5", 3) == ("<pad>", "</s>", "<unk>")


@pytest.mark.parametrize("name", CONFIGS)
def test_the_order_of_the_counts_does_not_matter(name):
    counts = counted(name)
    again = dict(sorted(counts.items(), reverse=True))
    assert learn_model(counts, CONFIGS[name]) == learn_model(again, CONFIGS[name])


@pytest.mark.parametrize("name", CONFIGS)
def test_a_corpus_too_small_is_refused(name):
    config = replace(CONFIGS[name], vocabulary_size=5000)
    with pytest.raises(DataError, match=r"tokenizer\.vocabulary_size.* supports only"):
        learn_model(counted(name), config)


def test_normalisation_is_kept_in_the_folder(tmp_path):
    make_tokenizer(tmp_path / "a", counted("cased"), CONFIGS["cased"])
    assert not read_tokenizer(tmp_path / "a").model.lowercase
    assert not read_tokenizer(tmp_path / "a").model.strip_accents
    config = replace(CONFIGS["wordpiece"], strip_accents=False)
    make_tokenizer(tmp_path / "b", counted("wordpiece"), config)
    assert read_tokenizer(tmp_path / "b").model.lowercase
    assert not read_tokenizer(tmp_path / "b").model.strip_accents


def test_a_pretrained_tokenizer_becomes_a_folder_of_ours(tmp_path, monkeypatch):
    (tmp_path / "spiece.model").write_bytes(train())
    config = PretrainedConfig(path=str(tmp_path / "spiece.model"), num_sentinels=5)
    fingerprint = fingerprint_pretrained(config)
    make_tokenizer(tmp_path / "tokenizer", Counter(), config)
    artifact = read_tokenizer(tmp_path / "tokenizer")
    assert artifact.model.proto == train()
    assert len(artifact.special.sentinels) == 5
    (tmp_path / "spiece.model").write_bytes(train(model_type="bpe"))
    changed = fingerprint_pretrained(config)
    assert changed != fingerprint
    monkeypatch.setenv("HOME", str(tmp_path))
    at_home = replace(config, path="~/spiece.model")
    assert fingerprint_pretrained(at_home) == changed
    make_tokenizer(tmp_path / "home", Counter(), at_home)
    # Ours can be brought along too.
    again = PretrainedConfig(path=str(tmp_path / "tokenizer"))
    make_tokenizer(tmp_path / "again", Counter(), again)
    assert read_tokenizer(tmp_path / "again") == artifact


def test_a_conversation_takes_the_chat_template_of_its_tokenizer(tmp_path):
    model = ByteBPEModel(pieces=(*ALPHABET, "<|endoftext|>"), merges=())
    own = find_chat_template("plain").replace("Assistant:", "Bot:")
    save_tokenizer(tmp_path / "given", with_chat_template(model, own))
    config = PretrainedConfig(path=str(tmp_path / "given"))
    for named, expected in ((None, own), ("plain", find_chat_template("plain"))):
        folder = tmp_path / f"made-{named}"
        dialogue = DialogueConfig(chat_template=named)
        make_tokenizer(folder, Counter(), config, dialogue)
        assert read_tokenizer(folder).model.framing.chat_template == expected


def test_a_pretrained_tokenizer_that_is_not_there(tmp_path):
    config = PretrainedConfig(path=str(tmp_path / "nowhere"))
    with pytest.raises(ArtifactError, match="nowhere"):
        make_tokenizer(tmp_path / "tokenizer", Counter(), config)
    assert not (tmp_path / "tokenizer").exists()
    # The data stage asks this before it reads the corpus.
    with pytest.raises(ArtifactError, match="nowhere: no such file or folder"):
        fingerprint_pretrained(config)
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(ArtifactError, match="nowhere: contains no tokenizer"):
        fingerprint_pretrained(config)
    with pytest.raises(ConfigError, match="path: is empty"):
        PretrainedConfig(path="")


def test_what_is_made_already_is_kept(tmp_path):
    config = CONFIGS["wordpiece"]
    model = learn_model(counted("wordpiece"), config)
    save_tokenizer(tmp_path, model)
    make_tokenizer(tmp_path, {"other": 9}, config)
    assert read_tokenizer(tmp_path).model == model
