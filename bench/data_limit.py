"""Compares the data job with a lower bound: the same work without a framework.

    python -m bench.data_limit TEXT [--megabytes 32] [--pieces N] [--rounds N]

The limit is tokenizing alone and TFRecord framing alone, in two threads of a process
that does nothing else (`bench/bare_work.py`). Whole processes in turns: our job, our
job on 0.1 MB, the bare work. Two comparisons:

- whole: the limit with importing TensorFlow and building the tokenizer, against all of
  our job's time;
- without start-up: tokenizing and framing, against our job's time less that of the job
  on 0.1 MB in the same round.
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
    whole_process,
)
from bench.pairs import all_in_turns, heading, row, spread

TINY = 0.1
WORK = ("tokenizing", "framing")


def main() -> None:
    given = parser_of("bench.data_limit", __doc__, 32).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = text_of(given.text, given.megabytes, Path(folder))
        tokenizer = learned_tokenizer(text, "wordpiece", given.pieces)
        job = replace(data_job("whole", text, "wordpiece", tokenizer), beam=THREADS)
        tiny_text = text_of(given.text, TINY, Path(folder))
        bare_work = [sys.executable, "-m", "bench.bare_work", text, job.run / "data"]
        bare: list[dict[str, float]] = []
        whole, tiny, _ = all_in_turns(
            [
                job,
                data_job("tiny", tiny_text, "wordpiece", tokenizer),
                lambda: bare.append(json.loads(whole_process(bare_work))),
            ],
            given.rounds,
        )
        megabytes = megabytes_of(text)
    del bare[0]  # the warm-up
    size = f"{megabytes:.3g} MB to records"
    print(heading(size, "limit", "our job", "limit / job"))
    print(_compared("whole", [sum(b.values()) for b in bare], whole))
    work = [sum(b[name] for name in WORK) for b in bare]
    begun = [a - b for a, b in zip(whole, tiny, strict=True)]
    print(_compared("without start-up", work, begun))
    for name in bare[0]:
        print(row(f"... {name}", spread([b[name] for b in bare], ".2f", " s"), "", ""))
    print(row(f"... our job on {TINY} MB", "", spread(tiny, ".2f", " s"), ""))


def _compared(what: str, limit: list[float], job: list[float]) -> str:
    shares = [a / b for a, b in zip(limit, job, strict=True)]
    times = [spread(seconds, ".2f", " s") for seconds in (limit, job)]
    return row(what, *times, spread(shares, ".0%"))


if __name__ == "__main__":
    main()
