"""The Rust `tokenizers` library as the independent reference for byte-level BPE."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers


def rust_byte_bpe(
    vocabulary: Sequence[str],
    merges: Sequence[tuple[str, str]],
    *,
    add_prefix_space: bool = False,
) -> Tokenizer:
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(ids, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=add_prefix_space
    )
    return tokenizer


def rust_byte_bpe_ids(
    tokenizer: Tokenizer, texts: Sequence[str | bytes]
) -> list[list[int]]:
    """Bytes that are not UTF-8 are read as our tokenizer says it reads them."""
    decoded = [
        text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        for text in texts
    ]
    encodings = tokenizer.encode_batch_fast(decoded, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def rust_words(text: str) -> list[bytes]:
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    places = [place for _, place in splitter.pre_tokenize_str(text)]
    return [text[start:end].encode() for start, end in places]
