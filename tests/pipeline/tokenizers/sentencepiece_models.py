"""Small SentencePiece models, as the SentencePiece library itself makes them."""

import io
from functools import cache

import sentencepiece

SENTENCES = [
    "the banana and the bandana",
    "then others other the mother's brother",
    "a café in the north, another in the south",
    "漢字 and other characters: ﬁ Ⅷ é",
    "numbers 1234 and 98.76 and 10,000",
    "this is that; that is this! is that this?",
] * 3


@cache
def train(**options) -> bytes:
    """The content of a `.model` file."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=written,
        minloglevel=3,
        character_coverage=1.0,
        **{"vocab_size": 90, "num_threads": 1, "hard_vocab_limit": False} | options,
    )
    return written.getvalue()


# The kinds of models there are, by what is different about them.
OPTIONS = {
    "unigram": {},
    "byte fallback": {"byte_fallback": True, "vocab_size": 330},
    "identity": {"normalization_rule_name": "identity"},
    "case folding": {"normalization_rule_name": "nmt_nfkc_cf"},
    "bpe": {"model_type": "bpe", "vocab_size": 100},
    "all white space": {"remove_extra_whitespaces": False},
    "user-defined": {"user_defined_symbols": "[MASK],<sep>"},
}
