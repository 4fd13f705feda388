"""Formats a model's cost as text."""

from typing import Any

Row = tuple[str, ...]


def describe(cost: dict[str, Any]) -> str:
    """Formats the result of `count_cost` as a few tables.

    Example:
    >>> print(table([("", "weights"), ("layers", "1,234"), ("total", "1,300")]))
             weights
      layers   1,234
      total    1,300
    """
    tokens = cost["length"]["tokens"]
    reads = f"{tokens:,} tokens"
    if cost["length"]["decoder_tokens"]:
        reads += f" and {cost['length']['decoder_tokens']:,} of the decoder"
    blocks = [
        f"{cost['name']}: {cost['parameters']['total']:,} weights; a sequence is "
        f"{reads}, a batch {cost['batch_size']:,}.",
        table(_parameters(cost["parameters"])),
        table(_flops(cost["flops"])),
        table(_training(cost["memory"])),
        table(_cache(cost["memory"]["cache"])),
        table(_attention(cost["attention"])),
    ]
    return "\n\n".join(block for block in blocks if block)


def table(rows: list[Row]) -> str:
    """Aligns columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        numbers = [cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=True)]
        lines.append("  " + " ".join([name.ljust(widths[0]), *numbers]).rstrip())
    return "\n".join(lines)


def _parameters(parameters: dict[str, Any]) -> list[Row]:
    total = parameters["total"]
    rows = [("parameters", "", "")]
    rows += [
        (f"  {name}", f"{count:,}", f"{count / total:.1%}")
        for name, count in parameters["parts"].items()
    ]
    rows.append(("  total", f"{total:,}", ""))
    with_heads, heads = parameters["total_with_heads"], parameters["heads"]
    if with_heads < total + sum(heads.values()):
        rows.append(("  the run leaves the pooler out", "", ""))
    if with_heads != total:
        rows += [(f"  {name}", f"{count:,}", "") for name, count in heads.items()]
        rows.append(("  total of the run", f"{with_heads:,}", ""))
    if parameters["trained"] != with_heads:
        rows.append(("  trained", f"{parameters['trained']:,}", ""))
    return rows


def _flops(flops: dict[str, Any]) -> list[Row]:
    sequence, token = flops["per_sequence"], flops["per_token"]
    rows = [
        ("work", "GFLOPs per sequence", "", "MFLOPs per token", ""),
        ("", "forward", "backward", "forward", "backward"),
    ]
    for name, count in sequence["forward"].items():
        if count:
            rows.append(
                (
                    f"  {name}",
                    f"{count / 1e9:,.3f}",
                    f"{sequence['backward'][name] / 1e9:,.3f}",
                    f"{token['forward'][name] / 1e6:,.2f}",
                    f"{token['backward'][name] / 1e6:,.2f}",
                )
            )
    return rows


def _training(memory: dict[str, Any]) -> list[Row]:
    rows = [("memory in training", "MB")]
    rows += [
        (f"  {name.replace('_', ' ')}", _megabytes(size))
        for name, size in memory["training"].items()
        if size
    ]
    return rows


def _cache(cache: dict[str, dict[str, int]]) -> list[Row]:
    wide, narrow = cache["float32"], cache["bfloat16"]
    if not wide:
        return []
    rows = [("cache in generation, MB", "float32", "bfloat16")]
    return rows + [
        (
            f"  {name.replace('_', ' ')}",
            _megabytes(wide[name]),
            _megabytes(narrow[name]),
        )
        for name in wide
        if wide[name]
    ]


def _attention(rows_by_length: list[dict[str, int]]) -> list[Row]:
    rows = [("attention, GFLOPs", "own", "full", "own/full", "MB own", "MB full")]
    for row in rows_by_length:
        share = row["flops"] / row["full_flops"]
        rows.append(
            (
                f"  {row['length']:,} tokens",
                f"{row['flops'] / 1e9:,.2f}",
                f"{row['full_flops'] / 1e9:,.2f}",
                f"{share:.2f}",
                _megabytes(row["score_bytes"]),
                _megabytes(row["full_score_bytes"]),
            )
        )
    return rows


def _megabytes(size: int) -> str:
    """Formats a size, with more digits below one megabyte.

    Example:
    >>> _megabytes(2_000), _megabytes(2_340_000)
    ('0.002', '2.3')
    """
    return f"{size / 1e6:,.3f}" if size < 1e6 else f"{size / 1e6:,.1f}"
