"""Imports tokenizers of other programs. Needs no TensorFlow.

A file with an unsupported feature is rejected, and the error names the feature:
slightly wrong token ids would be worse than an error.
"""

import json
from pathlib import Path
from typing import TypeVar

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.pipeline.tokenizers.base.file_reading import (
    parse_json_object,
    read_bytes,
    sort_pieces,
    split_lines,
)
from transbeam.pipeline.tokenizers.base.vocabulary import (
    SPECIAL_PIECES,
    is_reserved,
    name_empty_pieces,
)
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_model import (
    ByteBPEModel,
    parse_merges,
)
from transbeam.pipeline.tokenizers.files.added_tokens import (
    read_added_tokens,
    with_added_tokens,
)
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    METADATA_FILE,
    read_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_json_reader import (
    parse_tokenizer_json,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_model import (
    SentencePieceModel,
)
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_model import WordPieceModel

_Model = TypeVar("_Model", WordPieceModel, ByteBPEModel)

# The pairs of file names of vocabulary and merges.
_BYTE_BPE_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))

# Suffixes of SentencePiece models.
_SENTENCE_PIECE_SUFFIXES = (".model", ".spm")
_KNOWN = (
    "tokenizer.yaml, a SentencePiece .model, tokenizer.json, vocab.json with "
    "merges.txt, encoder.json with vocab.bpe, or vocab.txt"
)


def import_tokenizer(
    path: str | Path,
    *,
    lowercase: bool | None = None,
    strip_accents: bool | None = None,
    num_sentinels: int = 0,
    num_rows: int | None = None,
) -> TokenizerModel:
    """Reads a tokenizer of any kind.

    | what                                       | whose                            |
    |--------------------------------------------|----------------------------------|
    | a folder with `tokenizer.yaml`, or a run's | ours                             |
    | `vocab.txt`                                | BERT                             |
    | `vocab.json` and `merges.txt`              | GPT-2, RoBERTa (Hugging Face)    |
    | `encoder.json` and `vocab.bpe`             | GPT-2 (OpenAI)                   |
    | `tokenizer.json`: WordPiece, byte-level    | the Rust library `tokenizers`    |
    | `*.model`, `*.spm`                         | SentencePiece: T5, ALBERT, Llama |

    For BERT and GPT-2, `added_tokens.json` and `tokenizer_config.json` in the same
    folder are also read: both can contain added tokens; `tokenizer_config.json` defines
    whether BERT's tokenizer lowercases, and whether GPT-2's tokenizer prepends a space.

    Args:
        path: The tokenizer file, either file of a pair such as `vocab.json` and
            `merges.txt`, or the folder.
        lowercase: Whether to lowercase, for `vocab.txt`, which does not define this.
            None: as in `tokenizer_config.json` in the same folder; if it is not set
            there, True unless a piece has an uppercase letter.
        strip_accents: Whether to drop combining marks, for `vocab.txt`. None: as in
            `tokenizer_config.json`; if it is not set there, the same as `lowercase`, as
            in BERT.
        num_sentinels: The number of sentinel ids to add to a SentencePiece model, such
            as T5's 100.
        num_rows: The number of rows of the model's embedding, if known: added tokens
            with larger ids are left out.

    Raises:
        ArtifactError: The file is missing, damaged, or has an unsupported feature.
        ConfigError: An option does not apply to the file.
    """
    path = Path(path)
    if not path.exists():
        raise ArtifactError(f"{path}: no such file or folder; expected {_KNOWN}")
    file = _file_in(path) if path.is_dir() else path
    is_text_vocabulary = file.suffix == ".txt" and not _is_in_pair(file)
    if not is_text_vocabulary and not (lowercase is strip_accents is None):
        raise ConfigError(
            f"lowercase and strip_accents are for a vocab.txt, but {file} is not one: "
            "it says itself how text is normalised. Remove them"
        )
    is_sentence_piece = file.suffix in _SENTENCE_PIECE_SUFFIXES
    if num_sentinels and not is_sentence_piece:
        raise ConfigError(
            f"num_sentinels={num_sentinels} is for a SentencePiece model, but {file} "
            "is not one: the ids after its own would be of nothing. Remove it"
        )
    if file.name == METADATA_FILE:
        return read_tokenizer(file.parent).model
    if is_text_vocabulary:
        model = _read_vocabulary(file, lowercase, strip_accents)
        model = with_added_tokens(model, read_added_tokens(file.parent), num_rows)
    elif _is_in_pair(file):
        model = _read_pair(file)
        model = with_added_tokens(model, read_added_tokens(file.parent), num_rows)
    elif is_sentence_piece:
        model = SentencePieceModel(proto=read_bytes(file), num_sentinels=num_sentinels)
    elif file.suffix == ".json":
        content = parse_json_object(read_bytes(file), str(file))
        return parse_tokenizer_json(content, str(file), num_rows)
    else:
        raise ArtifactError(f"{path}: is no file of a tokenizer; expected {_KNOWN}")
    model.check(str(file))
    return model


def _file_in(folder: Path) -> Path:
    """Returns the main tokenizer file of a folder."""
    for place in (folder, folder / "data/tokenizer"):
        if (place / METADATA_FILE).is_file():
            return place / METADATA_FILE
    models = sorted(
        file for file in folder.iterdir() if file.suffix in _SENTENCE_PIECE_SUFFIXES
    )
    if len(models) > 1:
        names = ", ".join(model.name for model in models)
        raise ArtifactError(
            f"{folder}: has several SentencePiece models: {names}. Name the file"
        )
    names = ("tokenizer.json", *(pair[0] for pair in _BYTE_BPE_PAIRS), "vocab.txt")
    for file in (*models, *(folder / name for name in names)):
        if file.is_file():
            return file
    raise ArtifactError(f"{folder}: contains no tokenizer; expected {_KNOWN}")


def _is_in_pair(file: Path) -> bool:
    return any(file.name in pair for pair in _BYTE_BPE_PAIRS)


def _read_pair(file: Path) -> ByteBPEModel:
    pair = next(pair for pair in _BYTE_BPE_PAIRS if file.name in pair)
    vocabulary, merges = (file.with_name(name) for name in pair)
    remedy = f"{pair[0]} and {pair[1]} are needed, side by side"
    ids = parse_json_object(read_bytes(vocabulary, remedy), str(vocabulary))
    return ByteBPEModel(
        pieces=sort_pieces(ids, str(vocabulary)),
        merges=parse_merges(read_bytes(merges, remedy), str(merges)),
        add_prefix_space=_flag_beside(file, "add_prefix_space") or False,
    )


def _flag_beside(file: Path, key: str) -> bool | None:
    """Reads a flag from the folder's `tokenizer_config.json`; None if it is not set."""
    settings = file.with_name("tokenizer_config.json")
    if not settings.is_file():
        return None
    value = parse_json_object(read_bytes(settings), str(settings)).get(key)
    if value is not None and not isinstance(value, bool):
        raise ArtifactError(
            f"{settings}: {key} is {json.dumps(value)}, expected true or false: "
            "correct it there"
        )
    return value


def _read_vocabulary(
    file: Path, lowercase: bool | None, strip_accents: bool | None
) -> WordPieceModel:
    pieces = name_empty_pieces(split_lines(read_bytes(file), str(file)))
    if lowercase is None:
        lowercase = _flag_beside(file, "do_lower_case")
    if strip_accents is None:
        strip_accents = _flag_beside(file, "strip_accents")
    if lowercase is None:
        ordinary = (p for p in pieces if p not in SPECIAL_PIECES and not is_reserved(p))
        lowercase = not any(piece != piece.lower() for piece in ordinary)
    return WordPieceModel(
        pieces=pieces,
        lowercase=lowercase,
        strip_accents=lowercase if strip_accents is None else strip_accents,
    )
