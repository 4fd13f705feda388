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
    vocabulary_size: int = option(8192, minimum=32, doc=_SIZE_DOC)
    lowercase: bool = True
    """Convert texts to lower case."""

    strip_accents: bool | None = None
    """Remove accents. Left out: the same as `lowercase`, as in BERT."""

    maximum_alphabet: int = option(1000, minimum=1)
    """Maximum number of single characters in the vocabulary; the most frequent ones are
    kept.
    """

    num_reserved: int = option(0, minimum=0, doc=_RESERVED_DOC)
    num_sentinels: int = option(0, minimum=0, doc=_SENTINELS_DOC)


@dataclass(frozen=True, kw_only=True)
class ByteBPEConfig:
    """Byte-level BPE as in GPT-2, learned from the training split of the corpus.

    The vocabulary has a token for each byte, so there are no unknown tokens, and every
    text can be decoded exactly.
    """

    kind: Literal["byte_bpe"] = "byte_bpe"
    vocabulary_size: int = option(8192, minimum=257, doc=_SIZE_DOC)
    specials: Literal["gpt2", "roberta"] = "gpt2"
    """Special tokens: GPT-2's single <|endoftext|>, enough for causal; or RoBERTa's
    <s>, <pad>, </s>, <unk> and <mask>.
    """

    num_reserved: int = option(0, minimum=0, doc=_RESERVED_DOC)
    num_sentinels: int = option(0, minimum=0, doc=_SENTINELS_DOC)


@dataclass(frozen=True, kw_only=True)
class UnigramConfig:
    """SentencePiece's unigram model as in T5, learned from the training split.

    The unigram model is suited to natural-language text. For code, where indentation
    and line ends matter, use byte-level BPE (`byte_bpe`), which decodes every text
    exactly and has tokens for several spaces.
    """

    kind: Literal["unigram"] = "unigram"
    vocabulary_size: int = option(8192, minimum=16, doc=_SIZE_DOC)
    specials: Literal["t5", "albert"] = "t5"
    """Special tokens: T5's <pad>, </s> and <unk>, or ALBERT's <pad>, <unk>, [CLS],
    [SEP] and [MASK].
    """

    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = (
        "nmt_nfkc"
    )
    """SentencePiece's normalization rule: Unicode NFKC; `nmt` also converts all white
    space to spaces, `cf` folds case.
    """

    remove_extra_whitespaces: bool | None = None
    """Collapse repeated spaces and strip those at the ends of a text. Left out: true,
    as in SentencePiece. false: each space is kept; line ends and tabs are kept too
    unless `normalization` begins with nmt, as bytes with `byte_fallback`, else as
    unknown tokens. For code use byte_bpe, which is lossless and has tokens for several
    spaces.
    """

    character_coverage: float = option(0.9995, minimum=0.98, maximum=1.0)
    """Share of the corpus's characters that the vocabulary covers; the rarest
    characters are left out.
    """

    byte_fallback: bool = False
    """Encode characters outside the vocabulary as bytes, with 256 byte tokens."""

    num_sentinels: int = option(0, minimum=0, doc=_SENTINELS_DOC)


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig:
    """An existing tokenizer, used without changes."""

    kind: Literal["pretrained"] = "pretrained"
    path: str
    """Folder or file of a tokenizer: of Transbeam, BERT's vocab.txt, GPT-2's vocab.json
    and merges.txt, a tokenizer.json or a SentencePiece .model.
    """

    lowercase: bool | None = None
    """For vocab.txt only: convert texts to lower case. Left out: the value in
    tokenizer_config.json beside it, else true unless a token has upper case.
    """

    strip_accents: bool | None = None
    """For vocab.txt only: remove accents. Left out: the value in tokenizer_config.json,
    else the same as `lowercase`.
    """

    num_sentinels: int = option(0, minimum=0)
    """For a SentencePiece .model only: number of sentinel tokens added after its
    vocabulary, such as T5's 100.
    """

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("path: is empty; name a tokenizer's folder or file")


TokenizerConfig = WordPieceConfig | ByteBPEConfig | UnigramConfig | PretrainedConfig
