"""A whole file and a damaged one, and the outcome of a data job that reads them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROWS = [f"row {i} of a corpus, {i * i} words" for i in range(600)]
# The first document is there twice, so that something is filtered as well.
WHOLE, DAMAGED = [*ROWS[:300], ROWS[0]], ROWS[300:]
TORN = "torn by a damaged stretch of the file"
# Keys of the job: none, any share may be lost, and files may be cut.
_ANY_SHARE = "data.maximum_quarantine_fraction=1"
LEVELS = ((), (_ANY_SHARE,), (_ANY_SHARE, "data.accept_incomplete_files=true"))


@dataclass(frozen=True)
class DamagedCorpus:
    """Files, and the outcome of a data job that reads them.

    Attributes:
        name: The damage, in a few words.
        source: `data.source`, without its path.
        ending: The end of the files' names.
        whole: The undamaged file; it has the rows of `WHOLE`.
        damaged: The other one.
        used: Documents that are used.
        quarantined: Documents in quarantine, by reason.
        unread: Bytes of the damaged file that cannot be read.
        codes: Exit codes for each of `LEVELS`.
    """

    name: str
    source: str
    ending: str
    whole: bytes
    damaged: bytes
    used: int
    quarantined: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    codes: tuple[int, int, int] = (0, 0, 0)

    def write(self, folder: Path) -> str:
        """Writes the files; returns a configuration that reads them."""
        (folder / f"a{self.ending}").write_bytes(self.whole)
        (folder / f"b{self.ending}").write_bytes(self.damaged)
        letters = "abcdefghijklmnopqrstuvwxyz0123456789,"
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
        pieces += [f"##{letter}" for letter in letters]
        vocabulary = folder / "vocabulary/vocab.txt"
        vocabulary.parent.mkdir()
        vocabulary.write_text("\n".join(pieces) + "\n")
        source = f"{{kind: {self.source}, path: '{folder}/*{self.ending}'}}"
        return (
            f"name: damaged\ndata: {{source: {source}, sequence_length: 64}}\n"
            f"tokenizer: {{kind: pretrained, path: {vocabulary}}}\n"
            "objective: {kind: masked}\n"
        )


def flipped(raw: bytes) -> bytes:
    """The bytes with a bit of the middle one turned over."""
    damaged = bytearray(raw)
    damaged[len(raw) // 2] ^= 0x20
    return bytes(damaged)


def json_lines(rows: Sequence[str]) -> bytes:
    return "".join(json.dumps({"text": row}) + "\n" for row in rows).encode()
