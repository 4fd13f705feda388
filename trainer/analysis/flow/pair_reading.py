"""Reads pairs of texts of an analysis: from a table, or from the rows of records."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.pipeline.objectives.base.pooled import longest_first
from transbeam.pipeline.tokenizers.base.interface import Tokenizer, encodable
from transbeam.trainer.analysis.base.analysis_context import AnalyzedTexts

COLUMNS = ("text", "second_text", "label")
_SPECIAL = 3  # one before the pair, and one after each text


@dataclass(frozen=True)
class AnalyzedPairs:
    """Pairs of texts, each in one row with special tokens.

    Attributes:
        texts: The rows; `segment_ids` is 1 for the second text and its end token.
        labels: bool (N,), True for pairs of the positive class; None without labels of
            two classes.
        positive: The name of the positive class; empty without labels.
        note: The reason why there are no labels, or how many pairs were truncated;
            empty if there is nothing to say.
    """

    texts: AnalyzedTexts
    labels: np.ndarray | None
    positive: str
    note: str = ""


def read_pair_file(
    path: Path, model: Model, tokenizer: Tokenizer, most: int
) -> AnalyzedPairs:
    """Reads pairs from a table with a header: `.tsv`, or CSV.

    Fields of a `.tsv` file have no quotes. Other columns are ignored. Pairs too long
    for the model are truncated as those of records: at the end of the longer text.

    Args:
        path: A UTF-8 file with the columns `text`, `second_text`, and `label` with two
            values if there are labels. The positive class is the later one in
            alphabetical order, such as 1 of 0 and 1.
        model: The `model` section of the run.
        tokenizer: The run's tokenizer.
        most: Largest number of pairs.

    Raises:
        ConfigError: The model does not read pairs, or the tokenizer lacks the tokens
            around texts.
        DataError: The file is missing, is not UTF-8, lacks a column, or a row has one
            text only or no label.
    """
    if not isinstance(model, EncoderConfig) or model.patches is not None:
        raise ConfigError(
            f"{path}: pairs are read by a text encoder, and the model is another. Give "
            "a run whose model.kind is encoder"
        )
    special = tokenizer.special
    if special.begin is None or special.end is None:
        raise ConfigError(
            f"{path}: the tokenizer has no begin and end tokens ([CLS], [SEP]) around "
            "the texts of a pair. Give a run whose tokenizer has them"
        )
    rows = _read_table(path, most)
    columns = [
        tokenizer.tokenize(encodable(texts)).to_list()
        for texts in ([row[0] for row in rows], [row[1] for row in rows])
    ]
    longest = model.max_sequence_length - _SPECIAL
    framed, truncated = [], 0
    for number, (first, second) in enumerate(zip(*columns, strict=True), start=1):
        if not first or not second:
            raise DataError(
                f"{path}, pair {number}: the "
                f"{'first' if not first else 'second'} text has no token; expected two "
                "texts. Remove the row"
            )
        kept = longest_first(np.array([len(first)]), np.array([len(second)]), longest)
        size, second_size = (int(number[0]) for number in kept)
        truncated += size + second_size < len(first) + len(second)
        ids = [special.begin, *first[:size], special.end]
        segments = np.repeat([0, 1], [len(ids), second_size + 1])
        ids += [*second[:second_size], special.end]
        framed.append(
            {
                "token_ids": np.array(ids, np.int32),
                "segment_ids": segments.astype(np.int32),
            }
        )
    note = f"{truncated:,} pairs are longer than the model and were truncated"
    texts = AnalyzedTexts(path.name, tuple(framed))
    if rows[0][2] is None:
        return AnalyzedPairs(texts, None, "", f"{path.name}: has no column label")
    labels, positive = _binary_labels(path, [row[2] or "" for row in rows])
    return AnalyzedPairs(texts, labels, positive, note if truncated else "")


def read_pair_rows(texts: AnalyzedTexts, labels: Sequence[str]) -> AnalyzedPairs:
    """Reads pairs from the rows of records.

    Args:
        texts: Rows of a pair objective: `token_ids`, `segment_ids`, and for labels the
            number of the class as `label`, or as a feature whose name ends in `_label`.
        labels: The names of the classes, in the order of their numbers; empty if they
            have none.

    Raises:
        DataError: A row has one text only.
    """
    for number, row in enumerate(texts.rows):
        segments = row.get("segment_ids")
        if segments is None or len(np.unique(segments)) < 2:
            raise DataError(
                f"{texts.name}, text {number}: has one text only; expected a pair, as "
                "in records of sentence_pairs, pair_classification, pair_regression or "
                "span_qa. Give pairs: --pairs FILE"
            )
    names = [name for name in texts.rows[0] if name.endswith("label")]
    if not names:
        return AnalyzedPairs(texts, None, "", "the records have no labels")
    values = np.array([row[names[0]] for row in texts.rows]).reshape(len(texts))
    if not np.isin(values, (0, 1)).all() or len(labels or (0, 1)) != 2:
        reason = "the labels are not of two classes, which the area needs"
        return AnalyzedPairs(texts, None, "", reason)
    positive = labels[1] if labels else f"{names[0]} 1"
    return AnalyzedPairs(texts, values == 1, positive)


def _read_table(path: Path, most: int) -> list[tuple[str, str, str | None]]:
    is_tsv = path.suffix.lower() in (".tsv", ".tab")
    options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if is_tsv else {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True, **options)
            header = next(table, [])
            if missing := [name for name in COLUMNS[:2] if name not in header]:
                raise DataError(
                    f"{path}: has no column {missing[0]}; its first line has "
                    f"{', '.join(header) or 'nothing'}. Expected a header with text, "
                    "second_text and, for labeled pairs, label"
                )
            index = [header.index(name) for name in COLUMNS if name in header]
            rows = []
            for fields in table:
                if fields and len(rows) < most:
                    rows.append(_read_row(path, table.line_num, fields, header, index))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8: {error}. Convert it") from None
    except csv.Error as error:
        raise DataError(
            f"{path}, line {table.line_num}: {error}. Correct the quotes, or write a "
            ".tsv file, which has none"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if not rows:
        raise DataError(f"{path}: has no pair; expected a row for each, below a header")
    return rows


def _read_row(
    path: Path, line: int, fields: list[str], header: list[str], index: list[int]
) -> tuple[str, str, str | None]:
    if len(fields) != len(header):
        raise DataError(
            f"{path}, line {line}: has {len(fields)} fields, and the header "
            f"{len(header)}. Correct the row"
        )
    values = [fields[i].strip() for i in index]
    for name, value in zip(COLUMNS, values, strict=False):
        if not value:
            raise DataError(
                f"{path}, line {line}: {name} is empty; expected two texts, and a "
                "label if there is such a column. Remove the row"
            )
    return values[0], values[1], values[2] if len(values) > 2 else None


def _binary_labels(path: Path, values: list[str]) -> tuple[np.ndarray, str]:
    found = sorted(set(values))
    if len(found) != 2:
        shown = ", ".join(map(repr, found[:5]))
        raise DataError(
            f"{path}: the column label has {len(found)} different values ({shown}); "
            "expected two, such as 0 and 1. Leave the column out, or give pairs of two "
            "classes"
        )
    return np.array([value == found[1] for value in values]), found[1]
