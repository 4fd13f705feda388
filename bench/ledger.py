"""The books of damaged corpora: what the data job reads, uses and leaves out of each.

    python -m bench.ledger

Runs `transbeam data` over each corpus of `tests/pipeline/damaged_corpora`: as it is,
and where that is refused, with the keys that accept what is lost. Prints a table and
ends with 1 if the books of a corpus do not add up.
"""

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.pipeline.accounting.damaged_corpora.all_corpora import corpora
from tests.pipeline.accounting.damaged_corpora.corpus import LEVELS, DamagedCorpus
from transbeam.pipeline.__main__ import main as transbeam

HEADER = """\
| corpus | exit codes | source | used | filtered | quarantined | unread | documents |
|---|---|---:|---:|---:|---:|---:|---|"""


def main() -> int:
    print(HEADER)
    balanced = [_books(corpus) for corpus in corpora()]
    print(f"\n{sum(balanced)} of {len(balanced)} add up")
    return 0 if all(balanced) else 1


def _books(corpus: DamagedCorpus) -> bool:
    """Prints the row of a corpus; tells if it adds up."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.yaml").write_text(corpus.write(folder))
        codes = []
        for overrides in LEVELS:
            codes.append(_code(folder / "run.yaml", folder / "run", overrides))
            if codes[-1] == 0:
                break
        manifest = json.loads((folder / "run/data/manifest.json").read_text())
    counts = manifest["counts"]
    bytes_ = counts["bytes"]
    source, *fates = bytes_.values()
    documents = [
        sum(counts[of].values()) for of in ("documents", "filtered", "quarantined")
    ]
    cells = [
        corpus.name,
        ", ".join(map(str, codes)),
        *(f"{number:,}" for number in (source, *fates)),
        f"{counts['read']} = {' + '.join(map(str, documents))}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    size = len(corpus.whole) + len(corpus.damaged)
    return source == sum(fates) == size and counts["read"] == sum(documents)


def _code(config: Path, run: Path, overrides: tuple[str, ...]) -> int:
    words = [word for override in overrides for word in ("--set", override)]
    with _silence():
        return transbeam(["data", str(config), "--run", str(run), *words, "--quiet"])


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    said: Any = io.StringIO()
    with contextlib.redirect_stderr(said):
        yield


if __name__ == "__main__":
    raise SystemExit(main())
