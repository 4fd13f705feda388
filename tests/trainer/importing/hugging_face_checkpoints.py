"""Tiny checkpoints of others with a tokenizer beside, for `transbeam import`."""

import json
from pathlib import Path

from tests.model.weights.hugging_face_checkpoints import CASES, Case
from tests.small_run import WORDS
from transbeam.pipeline.tokenizers.byte_bpe.byte_bpe_vocabulary import ALPHABET

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"abcdefghijklmnopqrstuvwxyz0123456789",
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"),
    *sorted({word for word in WORDS if len(word) > 1}),
]
BYTES = [*ALPHABET, "Ġt", "Ġth", "<|endoftext|>"]
PLACES = 64


def case_of(name: str, pieces: int = len(PIECES), **changed: object) -> Case:
    """A case of the tests of weights, with a row for each of our pieces."""
    old = CASES[name]
    shapes = {
        key: tuple({11: pieces, 10: PLACES}.get(length, length) for length in shape)
        for key, shape in old.shapes.items()
    }
    places = "n_positions" if "n_positions" in old.config else "max_position_embeddings"
    sizes = {"vocab_size": pieces, places: PLACES}
    return Case({**old.config, **sizes, **changed}, shapes)


def write_bert(folder: Path, name: str, **changed: object) -> Path:
    """A BERT with the vocabulary `PIECES`."""
    case_of(name, **changed).write(folder)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return folder


def write_gpt2(folder: Path, name: str = "gpt2") -> Path:
    """A GPT-2 with the vocabulary `BYTES`."""
    case_of(name, len(BYTES)).write(folder)
    ids = {piece: number for number, piece in enumerate(BYTES)}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "merges.txt").write_text("#version: 0.2\nĠ t\nĠt h\n")
    return folder
