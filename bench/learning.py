"""Time of tokenizer training in the data job, against the Rust trainers.

    python -m bench.learning TEXT [--megabytes 32] [--pieces N] [--rounds N]

Three whole processes in turns: our job with the tokenizer to be learned, our job with
that tokenizer given, and `bench/peers/rust_trainer.py` with two threads. What learning
costs us is the first less the second, round by round. It learns from the training
documents that are left after cleaning and deduplication; the peer from the whole text.
"""

import sys
import tempfile
from pathlib import Path

from bench.corpus import (
    OBJECTIVES,
    data_job,
    learned_tokenizer,
    megabytes_of,
    parser_of,
    text_of,
    whole_process,
)
from bench.pairs import all_in_turns, heading, row, spread

PEER = Path(__file__).parent / "peers/rust_trainer.py"
HEADINGS = (
    "learned",
    "learning, in our job",
    "tokenizers, alone",
    "our time / its",
    "our job, learning",
    "our job, given it",
)


def main() -> None:
    given = parser_of("bench.learning", __doc__, 32).parse_args()
    print(heading(*HEADINGS))
    with tempfile.TemporaryDirectory() as folder:
        text = text_of(given.text, given.megabytes, Path(folder))
        for kind in OBJECTIVES:
            print(measured(text, kind, given.pieces, given.rounds), flush=True)


def measured(text: Path, kind: str, pieces: int, rounds: int) -> str:
    """A row of the table."""
    given = learned_tokenizer(text, kind, pieces)
    output = text.with_name(f"{kind}.json")
    peer = [sys.executable, PEER, text, output, kind, pieces]
    learning, not_learning, theirs = all_in_turns(
        [
            data_job("learning", text, kind, pieces),
            data_job("not-learning", text, kind, given),
            lambda: whole_process(peer, environment={"RAYON_NUM_THREADS": "2"}),
        ],
        rounds,
    )
    ours = [a - b for a, b in zip(learning, not_learning, strict=True)]
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    times = [spread(s, ".1f", " s") for s in (ours, theirs, learning, not_learning)]
    return row(
        f"{pieces:,} pieces, {kind}, {megabytes_of(text):.3g} MB",
        *(times[0], times[1], spread(ratios, ".2f", "x"), times[2], times[3]),
    )


if __name__ == "__main__":
    main()
