"""Tables and texts with damaged rows."""

import io
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tests.pipeline.accounting.damaged_corpora.corpus import (
    DAMAGED,
    WHOLE,
    DamagedCorpus,
    json_lines,
)


def damaged_tables() -> list[DamagedCorpus]:
    return [
        cut_parquet(),
        bad_row_group(),
        bad_bytes(),
        ragged_csv(),
        missing_brace(),
        missing_brace_in_an_array(),
    ]


def parquet(rows: Sequence[str]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": rows})
    pq.write_table(table, sink, row_group_size=60, use_dictionary=False)
    return sink.getvalue()


def cut_parquet() -> DamagedCorpus:
    """Half of a file, whose directory was at its end."""
    half = parquet(DAMAGED)
    half = half[: len(half) // 2]
    return DamagedCorpus(
        "Parquet cut short",
        "parquet",
        ".parquet",
        parquet(WHOLE),
        half,
        used=300,
        quarantined={"truncated or damaged Parquet file": 1},
        unread=len(half),
        codes=(2, 2, 0),
    )


def bad_row_group() -> DamagedCorpus:
    """Zeros in one of five row groups."""
    raw = bytearray(parquet(DAMAGED))
    column = pq.ParquetFile(io.BytesIO(raw)).metadata.row_group(2).column(0)
    start = column.data_page_offset
    raw[start : start + 40] = bytes(40)
    return DamagedCorpus(
        "Parquet, one of five row groups bad",
        "parquet",
        ".parquet",
        parquet(WHOLE),
        bytes(raw),
        used=540,
        quarantined={"damaged Parquet row group": 1},
        unread=round(len(raw) / 5),  # by its share of the rows
        codes=(2, 0, 0),
    )


def bad_bytes() -> DamagedCorpus:
    """A line that is no UTF-8, and some that are blank."""
    lines = [row.encode() for row in DAMAGED]
    lines[7] = lines[7].replace(b"row", b"r\xf6w")
    lines[9:9] = [b" "] * 20
    return DamagedCorpus(
        "text, one of 300 lines not UTF-8",
        "text, document: line",
        ".txt",
        "\n".join(WHOLE).encode(),
        b"\n".join(lines),
        used=599,
        quarantined={"not UTF-8": 1},
    )


def ragged_csv() -> DamagedCorpus:
    """A row with a field too many, one with a field too few, one that is not closed."""

    def table(rows: Sequence[str]) -> list[str]:
        return ["text,number", *(f'"{row}",{i}' for i, row in enumerate(rows))]

    lines = table(DAMAGED)
    lines[7] += ",more"
    lines[9] = lines[9].rpartition(",")[0]
    lines[11] = lines[11].replace('",', ",")
    return DamagedCorpus(
        "CSV, three of 300 rows ragged",
        "csv",
        ".csv",
        "\n".join(table(WHOLE)).encode(),
        "\n".join(lines).encode(),
        used=597,
        quarantined={
            "broken quotes: text after a closed one": 1,
            "not as many fields as the header": 2,
        },
    )


def missing_brace() -> DamagedCorpus:
    """A line without its last brace."""
    lines = json_lines(DAMAGED).splitlines()
    lines[7] = lines[7].removesuffix(b"}")
    return DamagedCorpus(
        "JSON lines, a brace missing",
        "jsonl",
        ".jsonl",
        json_lines(WHOLE),
        b"\n".join(lines),
        used=599,
        quarantined={"not JSON: Expecting ',' delimiter": 1},
    )


def missing_brace_in_an_array() -> DamagedCorpus:
    """An array on one line: what follows cannot be found again."""

    def array(rows: Sequence[str]) -> str:
        return json.dumps([{"text": row} for row in rows])

    broken = array(DAMAGED).replace(f'{DAMAGED[100]}"}}', f'{DAMAGED[100]}"')
    return DamagedCorpus(
        "JSON array on one line, a brace missing after a third",
        "jsonl",
        ".json",
        array(WHOLE).encode(),
        broken.encode(),
        used=400,
        quarantined={"not JSON: Expecting property name enclosed in double quotes": 1},
        codes=(2, 0, 0),
    )
