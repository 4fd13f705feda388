"""`tokenizer`: tokenizers to train, and pretrained ones."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option

_SIZE_DOC = "Number of pieces; special, reserved and sentinel pieces are among them."
_RESERVED_DOC = "Pieces without a meaning yet, kept for later use."
_SENTINELS_DOC = (
    "Pieces that stand for text that was cut out; span_corruption needs them."
)


@dataclass(frozen=True, kw_only=True)
class WordPieceConfig:
    """WordPiece as in BERT, learned from the training split of the corpus."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=32)
    lowercase: bool = option("Fold upper case away.", default=True)
    strip_accents: bool | None = option(
        "Drop combining marks. Left out: the same as `lowercase`, as BERT does.",
        default=None,
    )
    maximum_alphabet: int = option(
        "At most this many single characters get a piece, the most frequent ones.",
        default=1000,
        minimum=1,
    )
    num_reserved: int = option(_RESERVED_DOC, default=0, minimum=0)
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class ByteBPEConfig:
    """Byte-level BPE as in GPT-2, learned from the training split of the corpus.

    It has a piece for each byte, so there are no unknown tokens, and every text can be
    decoded exactly.
    """

    kind: Literal["byte_bpe"] = "byte_bpe"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=257)
    specials: Literal["gpt2", "roberta"] = option(
        "Special pieces: GPT-2's single <|endoftext|>, enough for causal; or RoBERTa's "
        "<s>, <pad>, </s>, <unk> and <mask>.",
        default="gpt2",
    )
    num_reserved: int = option(_RESERVED_DOC, default=0, minimum=0)
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class UnigramConfig:
    """SentencePiece's unigram model as in T5, learned from the training split.

    It is for running text. For code, where indentation and line ends matter, use
    byte_bpe: it decodes every text exactly, and has pieces for several spaces.
    """

    kind: Literal["unigram"] = "unigram"
    vocabulary_size: int = option(_SIZE_DOC, default=8192, minimum=16)
    specials: Literal["t5", "albert"] = option(
        "Special pieces: T5's <pad>, </s> and <unk>, or ALBERT's <pad>, <unk>, [CLS], "
        "[SEP] and [MASK].",
        default="t5",
    )
    normalization: Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"] = (
        option(
            "SentencePiece's rule: Unicode's NFKC; `nmt` also makes every white space "
            "a space, `cf` folds upper case away.",
            default="nmt_nfkc",
        )
    )
    remove_extra_whitespaces: bool | None = option(
        "Make one space of several, and take those at the ends of a text away. Left "
        "out: true, as SentencePiece does. With false each is a piece of its own; line "
        "ends and tabs stay too where `normalization` does not begin with nmt, as "
        "bytes with `byte_fallback`, else unknown. For code take byte_bpe, which loses "
        "nothing and has pieces for several spaces.",
        default=None,
    )
    character_coverage: float = option(
        "Share of the corpus's characters that get a piece; the rarest go without.",
        default=0.9995,
        minimum=0.98,
        maximum=1.0,
    )
    byte_fallback: bool = option(
        "Write characters without a piece as bytes, for which there are 256 pieces.",
        default=False,
    )
    num_sentinels: int = option(_SENTINELS_DOC, default=0, minimum=0)


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig:
    """A tokenizer that is there already, used as it is; the pieces are in its files."""

    kind: Literal["pretrained"] = "pretrained"
    path: str = option(
        "A tokenizer's folder or file: ours, BERT's vocab.txt, GPT-2's vocab.json and "
        "merges.txt, a tokenizer.json or a SentencePiece .model."
    )
    lowercase: bool | None = option(
        "For vocab.txt only: fold upper case away. Left out: as tokenizer_config.json "
        "beside it says, else unless a piece has upper case.",
        default=None,
    )
    strip_accents: bool | None = option(
        "For vocab.txt only: drop combining marks. Left out: as that file says, else "
        "the same as `lowercase`.",
        default=None,
    )
    num_sentinels: int = option(
        "For a SentencePiece .model only: sentinel pieces after its own, such as T5's "
        "100.",
        default=0,
        minimum=0,
    )

    def __post_init__(self) -> None:
        if not self.path:
            raise ConfigError("path: is empty; name a tokenizer's folder or file")


TokenizerConfig = WordPieceConfig | ByteBPEConfig | UnigramConfig | PretrainedConfig
