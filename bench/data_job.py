"""The data job against its peers, whole processes in turns.

    python -m bench.data_job TEXT --peer-python PYTHON [--model-garden DIR]
        [--rounds N] [--megabytes 32]

TEXT is a file of paragraphs. PYTHON belongs to an environment with `datasets` and
`tokenizers`; DIR is the unpacked wheel of `tf-models-official`, whose
`create_pretraining_data.py` is BERT's own, run with this environment. Each side gets
the same vocabulary of 30,522 pieces, learned here first, and two cores.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from bench.pairs import Pair, in_turns

VOCABULARY = 30_522
PEER = Path(__file__).parent / "peers/hf_datasets.py"


def main() -> None:
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), arguments.text, arguments.megabytes)
        pairs = [
            lambda: bench.against_datasets("masked", arguments.peer_python),
            lambda: bench.against_datasets("causal", arguments.peer_python),
        ]
        if arguments.model_garden:
            pairs.append(lambda: bench.against_bert(arguments.model_garden))
        for pair in pairs:
            work, peer, ours, theirs, megabytes = pair()
            seconds = in_turns(ours, theirs, arguments.rounds)
            print(Pair(work, peer, *seconds, megabytes, "MB").as_row(), flush=True)


class Bench:
    """The texts, the vocabularies, and the commands of each side."""

    def __init__(self, folder: Path, text: Path, megabytes: int) -> None:
        self.folder = folder
        self.megabytes = megabytes
        self.text = self._beginning(text, megabytes)
        self.tokenizers = {
            "masked": self._learned("wordpiece"),
            "causal": self._learned("byte_bpe"),
        }

    def against_datasets(self, objective: str, python: str):
        ours = self._data(objective, self.text)
        file = _tokenizer_json(self.tokenizers[objective], self.folder)
        output = self.folder / "datasets"
        command = [python, PEER, self.text, file, output, "2", "128"]
        work = f"{self.megabytes} MB to {objective} records of 128"
        return work, "datasets", ours, lambda: _run(command, output), self.megabytes

    def against_bert(self, garden: Path):
        megabytes = min(self.megabytes, 8)
        text = self._beginning(self.text, megabytes)
        output = self.folder / "bert.tfrecord"
        command = [
            *(sys.executable, garden / "official/nlp/data/create_pretraining_data.py"),
            *(f"--input_file={text}", f"--output_file={output}", "--dupe_factor=1"),
            f"--vocab_file={self.tokenizers['masked'] / 'vocab.txt'}",
            *("--max_seq_length=128", "--max_predictions_per_seq=20"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(garden)}
        ours = self._data("masked", text)
        work = f"{megabytes} MB to masked records of 128"
        return work, "BERT", ours, lambda: _run(command, output, environment), megabytes

    def _beginning(self, text: Path, megabytes: int) -> Path:
        path = self.folder / f"text-{megabytes}.txt"
        if not path.exists():
            raw = text.read_bytes()[: megabytes * 10**6]
            path.write_bytes(raw[: raw.rindex(b"\n\n") + 1])
        return path

    def _learned(self, kind: str) -> Path:
        tokenizer = {"kind": kind, "vocabulary_size": VOCABULARY}
        self._data(kind, self.text, tokenizer)()
        kept = self.folder / f"tokenizer-{kind}"
        shutil.move(self.folder / f"run-{kind}/data/tokenizer", kept)
        return kept

    def _data(
        self, name: str, text: Path, tokenizer: dict | None = None
    ) -> Callable[[], None]:
        """Our command on a text; without a tokenizer to learn, with the one learned."""
        pretrained = {"kind": "pretrained", "path": None}
        if tokenizer is None:
            pretrained["path"] = str(self.tokenizers[name])
        config = {
            "name": name,
            "data": {"source": {"kind": "text", "path": str(text)}},
            "tokenizer": tokenizer or pretrained,
            "objective": {"kind": "causal" if name == "causal" else "masked"},
        }
        if name == "byte_bpe":
            config["objective"]["kind"] = "causal"
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        run = self.folder / f"run-{name}"
        command = [sys.executable, "-m", "transbeam", "data", file, "--run", run]
        return lambda: _run([*command, "--quiet", "--workers=2"], run)


def _tokenizer_json(folder: Path, into: Path) -> Path:
    """The tokenizer of a folder of ours in the format of the Rust library."""
    if (folder / "vocab.txt").exists():
        pieces = (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1]
        ids = {piece: i for i, piece in enumerate(pieces)}
        rust = Tokenizer(
            models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
        )
        rust.normalizer = normalizers.BertNormalizer()
        rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        files = (folder / "vocab.json", folder / "merges.txt")
        rust = Tokenizer(models.BPE.from_file(*map(str, files)))
        rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        rust.decoder = decoders.ByteLevel()
    path = into / f"{folder.name}.json"
    rust.save(str(path))
    return path


def _run(command: list, output: Path, environment: dict | None = None) -> None:
    if output.is_dir():
        shutil.rmtree(output)
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stderr[-2000:]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.data_job", description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--model-garden", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=32)
    return parser


if __name__ == "__main__":
    main()
