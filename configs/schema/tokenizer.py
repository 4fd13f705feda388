"""`tokenizer`: tokenizers to train, and pretrained ones."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

_SIZE_DOC = "Vocabulary size, including special, reserved and sentinel tokens."
_RESERVED_DOC = "Number of unused tokens that are reserved for later use."
_SENTINELS_DOC = (
    "Number of sentinel tokens that replace text spans; span_corruption needs them."
)


@dataclass(frozen=True, kw_only=True)
class WordPieceConfig:
    """WordPiece as in BERT, learned from the training split of the corpus."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=32)
    lowercase: bool = option("Convert texts to lower case.", default=True)
    strip_accents: bool | None = option(
        "Remove accents. Left out: the same as `lowercase`, as in BERT.",
        default=None,
    )
    maximum_alphabet: int = option(
        "Maximum number of single characters in the vocabulary; the most frequent "
        "ones are kept.",
        default=1000,
        minimum=1,
    )
    num_reserved: int = option(_RESERVED_DOC, default=0, minimum=0)
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class ByteBPEConfig:
    """Byte-level BPE as in GPT-2, learned from the training split of the corpus.

    The vocabulary has a token for each byte, so there are no unknown tokens, and every
    text can be decoded exactly.
    """

    kind: Literal["byte_bpe"] = "byte_bpe"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=257)
    specials: Literal["gpt2", "roberta"] = option(
        "Special tokens: GPT-2's single <|endoftext|>, enough for causal; or "
        "RoBERTa's <s>, <pad>, </s>, <unk> and <mask>.",
        default="gpt2",
    )
    num_reserved: int = option(_RESERVED_DOC, default=0, minimum=0)
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class UnigramConfig:
    """SentencePiece's unigram model as in T5, learned from the training split.

    This tokenizer is suited to running text. For code, where indentation and line ends
    matter, use byte-level BPE (`byte_bpe`), which decodes every text exactly and has
    tokens for several spaces.
    """

    kind: Literal["unigram"] = "unigram"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=16)
    specials: Literal["t5", "albert"] = option(
        "Special tokens: T5's <pad>, </s> and <unk>, or ALBERT's <pad>, <unk>, [CLS], "
        "[SEP] and [MASK].",
        default="t5",
    )
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = (
        option(
            "SentencePiece's normalization rule: Unicode NFKC; `nmt` also converts all "
            "white space to spaces, `cf` folds case.",
            default="nmt_nfkc",
        )
    )
    remove_extra_whitespaces: bool | None = option(
        "Collapse repeated spaces and strip those at the ends of a text. Left out: "
        "true, as in SentencePiece. false: each space is kept; line ends and tabs are "
        "kept too unless `normalization` begins with nmt, as bytes with "
        "`byte_fallback`, else as unknown tokens. For code use byte_bpe, which is "
        "lossless and has tokens for several spaces.",
        default=None,
    )
    character_coverage: float = option(
        "Share of the corpus's characters that the vocabulary covers; the rarest "
        "characters are left out.",
        default=0.9995,
        minimum=0.98,
        maximum=1.0,
    )
    byte_fallback: bool = option(
        "Encode characters outside the vocabulary as bytes, with 256 byte tokens.",
        default=False,
    )
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig:
    """An existing tokenizer, used without changes."""

    kind: Literal["pretrained"] = "pretrained"
    path: str = option(
        "Folder or file of a tokenizer: of Transbeam, BERT's vocab.txt, GPT-2's "
        "vocab.json and merges.txt, a tokenizer.json or a SentencePiece .model."
    )
    lowercase: bool | None = option(
        "For vocab.txt only: convert texts to lower case. Left out: the value in "
        "tokenizer_config.json beside it, else true unless a token has "
        "upper case.",
        default=None,
    )
    strip_accents: bool | None = option(
        "For vocab.txt only: remove accents. Left out: the value in "
        "tokenizer_config.json, else the same as `lowercase`.",
        default=None,
    )
    num_sentinels: int = option(
        "For a SentencePiece .model only: number of sentinel tokens added after its "
        "vocabulary, such as T5's 100.",
        default=0,
        minimum=0,
    )

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("path: is empty; name a tokenizer's folder or file")


TokenizerConfig = WordPieceConfig | ByteBPEConfig | UnigramConfig | PretrainedConfig
