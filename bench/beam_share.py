"""Beam's own share of the data job's time, ours and that of a naive job.

    python -m bench.beam_share TEXT [--megabytes 32] [--pieces N] [--rounds N]

Whole processes in turns, each with Beam and without it: our job in two threads against
`bench/without_beam.py`, which must make the same bytes, and the line-by-line job
`bench/peers/naive_beam.py` against its own loop. Beam's share is what of the time with
it goes when it goes. The naive job's loop is one process: for two there is no share.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.corpus import (
    THREADS,
    data_job,
    learned_tokenizer,
    megabytes_of,
    parser_of,
    text_of,
    tokenizer_json,
    whole_process,
)
from bench.pairs import all_in_turns, heading, row, spread

PEER = Path(__file__).parent / "peers/naive_beam.py"


def main() -> None:
    given = parser_of("bench.beam_share", __doc__, 32).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = text_of(given.text, given.megabytes, Path(folder))
        tokenizer = learned_tokenizer(text, "wordpiece", given.pieces)
        ours = replace(data_job("with", text, "wordpiece", tokenizer), beam=THREADS)
        bare = replace(
            data_job("without", text, "wordpiece", tokenizer),
            module=("bench.without_beam", "data"),
        )
        output = text.with_name("naive")
        peer = [sys.executable, PEER, text, tokenizer_json(tokenizer), output]
        seconds = all_in_turns(
            [
                ours,
                bare,
                lambda: whole_process([*peer, "in_memory"], output),
                lambda: whole_process([*peer, "no_beam"], output),
                lambda: whole_process([*peer, "multi_processing"], output),
            ],
            given.rounds,
        )
        if _digest(ours.run) != _digest(bare.run):
            raise SystemExit("with and without Beam the records are not the same")
        megabytes = megabytes_of(text)
    size = f"{megabytes:.3g} MB to records"
    print(heading(size, "with Beam", "without", "Beam's share"))
    print(_shared("ours, 2 threads", seconds[0], seconds[1]))
    print(_shared("a line an element, in memory", seconds[2], seconds[3]))
    print(row("the same, 2 processes", spread(seconds[4], ".1f", " s"), "", ""))


def _shared(work: str, with_beam: list[float], without: list[float]) -> str:
    shares = [(a - b) / a for a, b in zip(with_beam, without, strict=True)]
    times = [spread(seconds, ".1f", " s") for seconds in (with_beam, without)]
    return row(work, *times, spread(shares, ".0%"))


def _digest(run: Path) -> str:
    return json.loads((run / "data/manifest.json").read_text())["records_sha256"]


if __name__ == "__main__":
    main()
