"""The data job against its peers, whole processes in turns.

    python -m bench.data_job TEXT --peer-python PYTHON [--megabytes 32 128]
        [--lines LINES] [--model-garden DIR] [--rounds N] [--pieces N]

TEXT is a file of paragraphs, LINES one of a document a line (.gz too), which is taken
as it is and at each size. A text that is too short for a size is there several times,
with the number of the copy in front of each document. PYTHON belongs to an environment
with `datasets` and `tokenizers`; DIR is the unpacked wheel of `tf-models-official`,
whose `create_pretraining_data.py` is BERT's own, run with this environment on 8 MB at
most. Each side has two cores and the same vocabulary, learned here from TEXT of the
first size.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.corpus import (
    OBJECTIVES,
    DataJob,
    data_job,
    learned_tokenizer,
    megabytes_of,
    parser_of,
    text_of,
    tokenizer_json,
    whole_process,
)
from bench.pairs import Pair, heading, in_turns

PEER = Path(__file__).parent / "peers/hf_datasets.py"


def main() -> None:
    parser = parser_of("bench.data_job", __doc__, [32])
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--model-garden", type=Path)
    arguments = parser.parse_args()
    print(heading("work", "ours", "peer", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        for pair in Bench(Path(folder), arguments).pairs():
            print(pair.as_row(), flush=True)


class Bench:
    """The texts, the tokenizers, and the measurements one after another."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder = folder
        self.arguments = arguments
        text = text_of(arguments.text, arguments.megabytes[0], folder)
        self.tokenizers = {
            kind: learned_tokenizer(text, kind, arguments.pieces) for kind in OBJECTIVES
        }

    def pairs(self) -> Iterator[Pair]:
        given = self.arguments
        for megabytes in given.megabytes:
            text = text_of(given.text, megabytes, self.folder)
            for kind in OBJECTIVES:
                yield self._against_datasets(text, kind)
        for megabytes in [None, *given.megabytes] if given.lines else []:
            text = text_of(given.lines, megabytes, self.folder, "line")
            yield self._against_datasets(text, "wordpiece", "line")
        if given.model_garden:
            text = text_of(given.text, min(given.megabytes[0], 8), self.folder)
            yield self._against_bert(text)

    def _against_datasets(
        self, text: Path, kind: str, document: str = "paragraph"
    ) -> Pair:
        tokenizer = self.tokenizers[kind]
        ours = data_job("ours", text, kind, tokenizer, document)
        output = self.folder / "datasets"
        theirs = [
            *(self.arguments.peer_python, PEER, text, tokenizer_json(tokenizer)),
            *(output, "2", "128", document),
        ]
        return self._pair(text, "datasets", OBJECTIVES[kind], ours, theirs, output)

    def _against_bert(self, text: Path) -> Pair:
        garden, tokenizer = self.arguments.model_garden, self.tokenizers["wordpiece"]
        ours = data_job("ours", text, "wordpiece", tokenizer)
        theirs = [
            *("env", f"PYTHONPATH={garden}", sys.executable),
            garden / "official/nlp/data/create_pretraining_data.py",
            *(f"--input_file={text}", f"--output_file={self.folder / 'bert.tfrecord'}"),
            *(f"--vocab_file={tokenizer / 'vocab.txt'}", "--dupe_factor=1"),
            *("--max_seq_length=128", "--max_predictions_per_seq=20"),
        ]
        return self._pair(text, "BERT", "masked", ours, theirs)

    def _pair(
        self,
        text: Path,
        peer: str,
        objective: str,
        ours: DataJob,
        theirs: Sequence[object],
        output: Path | None = None,
    ) -> Pair:
        megabytes = megabytes_of(text)
        documents = text.stem.split("-")[0] + "s"
        work = f"{megabytes:.3g} MB of {documents} to {objective} records of 128"
        seconds = in_turns(
            ours, lambda: whole_process(theirs, output), self.arguments.rounds
        )
        return Pair(work, peer, *seconds, megabytes, "MB")


if __name__ == "__main__":
    main()
