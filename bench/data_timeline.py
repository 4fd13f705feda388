"""Timeline of the data job, step by step.

    python -m bench.data_timeline TEXT [--megabytes 32] [--pieces N] [--rounds N]

Whole processes of `bench/timed_job.py`, two threads each. A step is told by when it
first began and last ended in the process, so steps of which each thread has its own
overlap. What stands between the steps is Beam's; after `all`, Python ends.
"""

import json
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


def main() -> None:
    given = parser_of("bench.data_timeline", __doc__, 32).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = text_of(given.text, given.megabytes, Path(folder))
        tokenizer = learned_tokenizer(text, "wordpiece", given.pieces)
        job = replace(
            data_job("timed", text, "wordpiece", tokenizer),
            module=("bench.timed_job", "data"),
            beam=THREADS,
        )
        seen: list[dict[str, tuple[float, float]]] = []
        (whole,) = all_in_turns(
            [lambda: seen.append(json.loads(whole_process(job.command, job.run)))],
            given.rounds,
        )
        megabytes = megabytes_of(text)
    del seen[0]  # the warm-up
    print(heading(f"{megabytes:.3g} MB to records", "began", "ended", "seconds"))
    for step in sorted(seen[0], key=lambda step: seen[0][step][1]):
        times = [one[step] for one in seen]
        lasted = [end - begin for begin, end in times]
        columns = ([t[0] for t in times], [t[1] for t in times], lasted)
        print(row(step, *(spread(column, ".2f", "") for column in columns)))
    print(row("the whole process", "", "", spread(whole, ".2f", "")))


if __name__ == "__main__":
    main()
