"""The arguments of `transbeam tokenize`."""

import argparse

from transbeam.configs.base.local_paths import local_path


def add_tokenize_arguments(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Adds the arguments of `transbeam tokenize` to a parser and returns it."""
    parser.description = (
        "Reads lines and prints the pieces they are cut into, with their ids."
    )
    parser.epilog = (
        "example: echo 'It returns a value.' | transbeam tokenize runs/demo --offsets"
    )
    parser.add_argument(
        "artifact",
        metavar="ARTIFACT",
        type=local_path,
        help="a run's folder, a tokenizer's folder, or a file: vocab.txt, vocab.json "
        "with merges.txt beside it, tokenizer.json, a SentencePiece .model",
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        type=local_path,
        help="where the lines are; stdin if left out",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--decode",
        action="store_true",
        help="the lines are ids, or JSON with `ids` in it: print their text",
    )
    what.add_argument(
        "--report",
        action="store_true",
        help="print how well the vocabulary fits all lines together",
    )
    what.add_argument(
        "--offsets",
        action="store_true",
        help="print below each piece which characters of the line it stands for",
    )
    parser.add_argument(
        "--json-lines",
        action="store_true",
        help="the lines are JSON, strings or objects with `text`, so that a text may "
        "have line ends in it; in a file called .jsonl they are",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON object for each line: text, pieces, ids and offsets",
    )
    return parser
