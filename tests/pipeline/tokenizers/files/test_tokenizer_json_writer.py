"""The written tokenizer.json is the same tokenizer in the Rust library."""

import json
from collections import Counter
from pydoc_data.topics import topics

import pytest
from tokenizers import Tokenizer

from tests.data.hostile_strings import HOSTILE_TEXTS
from tests.pipeline.tokenizers.rust_byte_bpe import rust_byte_bpe_ids
from transbeam.configs.schema.tokenizer import ByteBPEConfig, WordPieceConfig
from transbeam.pipeline.tokenizers.files.tokenizer_json_reader import (
    parse_tokenizer_json,
)
from transbeam.pipeline.tokenizers.files.tokenizer_json_writer import tokenizer_json
from transbeam.pipeline.tokenizers.training.train_tokenizer import learn_model

WORDS = Counter(f"{topics['if']} the lazy dog jumps <s> [CLS]".split())
CONFIGS = {
    "gpt2": ByteBPEConfig(vocabulary_size=300),
    "roberta": ByteBPEConfig(vocabulary_size=300, specials="roberta"),
    "wordpiece": WordPieceConfig(vocabulary_size=150),
    "cased": WordPieceConfig(vocabulary_size=150, lowercase=False, strip_accents=True),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_tokenizer(name):
    model = learn_model(WORDS, CONFIGS[name])
    content = tokenizer_json(model)
    assert parse_tokenizer_json(json.loads(json.dumps(content)), "file") == model
    rust = Tokenizer.from_str(json.dumps(content))
    texts = [*HOSTILE_TEXTS, "the quick <s> </s> [CLS] it's"]
    ids = model.build().tokenize(texts).to_list()
    assert rust_byte_bpe_ids(rust, texts) == ids
    plain = "the lazy dog jumps"
    assert rust.decode(rust.encode(plain).ids) == plain
