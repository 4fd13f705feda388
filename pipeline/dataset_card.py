"""The dataset card: describes the records, as Markdown and as one HTML page.

The Markdown and the HTML have the same content. The HTML page also has charts of the
distributions; it needs no network and no script.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.pages.html_templates import TEMPLATES, render
from transbeam.pipeline.pages.pictures import COLORS, as_svg, new_figure

Table = list[tuple[str, ...]]


_FATES = ("filtered", "quarantined")
_MOST_FILES = 50
_HEADERS = ("", "fate", "piece", "feature", "kind", "encoding")
_MOST_BARS = 64


@dataclass(frozen=True)
class CardSection:
    """A section: heading, text, table, and an optional chart for the HTML page."""

    title: str
    text: str
    table: Table
    picture: Markup | None = None


def write_card(
    folder: Path, name: str, manifest: Mapping[str, Any], statistics: Mapping[str, Any]
) -> None:
    """Writes `card.md` and `card.html` into the manifest's folder."""
    sections = list(_sections(manifest, statistics))
    for card in ("card.md", "card.html"):
        text = render(
            TEMPLATES / card,
            title=f"Training data of {name}",
            sections=sections,
            headers=_HEADERS,
        )
        write_atomically(folder / card, text)


def _sections(
    manifest: Mapping[str, Any], statistics: Mapping[str, Any]
) -> Sequence[CardSection]:
    counts, config = manifest["counts"], manifest["config"]
    return (
        CardSection(
            "What it is",
            f"Records for the objective {config['objective.kind']!r}, made from "
            f"{_sources(config)} by Transbeam {manifest['code_version']}.",
            [
                ("tokenizer", str(config["tokenizer.kind"])),
                ("vocabulary", f"{manifest['vocabulary']['size']:,} pieces"),
                ("tokenizer's fingerprint", manifest["vocabulary"]["fingerprint"]),
                ("fingerprint of the records", manifest["records_sha256"]),
                ("source files", f"{len(manifest['sources']):,}"),
                ("bytes of source", f"{_total(manifest['sources'], 'bytes'):,}"),
                ("shards", f"{len(manifest['shards']):,}"),
                ("bytes of records", f"{_total(manifest['shards'], 'bytes'):,}"),
            ],
        ),
        CardSection(
            "Splits",
            _rule(config) + _leaks(manifest),
            _splits(manifest),
        ),
        CardSection(
            "Where every document went",
            f"{counts['read']:,} documents were read. Used, filtered and quarantined "
            "add up to that.",
            _books(counts),
        ),
        CardSection(
            "Where every byte of source went",
            "What was read of a file is shared out among its documents by their sizes "
            "as texts." + _not_whole(manifest["unread"]["files"]),
            _bytes(counts["bytes"]) + _unread(manifest["unread"]["files"]),
        ),
        *_readings(manifest),
        *_distributions(statistics),
        CardSection(
            "What a record holds",
            "Features of each tf.train.Example.",
            [("feature", "type", "shape", "meaning")]
            + [
                (f["name"], f["dtype"], str(tuple(f["shape"])), f["meaning"])
                for f in manifest["features"]
            ],
        ),
        CardSection(
            "Configuration",
            "Every key that decides what the records are.",
            [(key, str(value)) for key, value in config.items()],
        ),
    )


def _total(rows: Sequence[Mapping[str, Any]], key: str) -> int:
    return sum(row[key] for row in rows)


def _sources(config: Mapping[str, Any]) -> str:
    """Describes the kinds of the sources."""
    held_out = config.get("data.validation_source.kind")
    text = f"{config['data.source.kind']!r}"
    return f"{text}, with validation from {held_out!r}," if held_out else text


def _rule(config: Mapping[str, Any]) -> str:
    """Describes the assignment of documents to splits."""
    if "data.validation_source.kind" in config:
        return "All validation documents, and no others, are of a source of their own."
    return "Which split a document is in depends on its content alone."


def _leaks(manifest: Mapping[str, Any]) -> str:
    text = (
        f" {manifest['leaks_prevented']:,} training documents were dropped because "
        "validation has them."
    )
    if left := manifest["leaks_left"]:
        text += f" {left:,} validation documents have texts that are in training too."
    if "data.deduplication.near.similarity" not in manifest["config"]:
        text += " Near copies were not looked for, in either split or between them."
    return text


def _splits(manifest: Mapping[str, Any]) -> Table:
    counts = manifest["counts"]
    splits = list(counts["records"])
    names = ["documents", "records", "tokens", "unknown_tokens", "truncated_tokens"]
    names += ["hard_negatives", "ignored_negatives"]
    rows = [
        (name.replace("_", " "), *(f"{counts[name].get(s, 0):,}" for s in splits))
        for name in names
        if name in counts
    ]
    padding = manifest["padding_fraction"]
    rows.append(("padding", *(f"{padding.get(split, 0):.2%}" for split in splits)))
    return [("", *splits), *rows]


def _books(counts: Mapping[str, Any]) -> Table:
    rows: Table = [("fate", "reason", "documents")]
    for fate, of in (("used", "documents"), *((f, f) for f in _FATES)):
        rows += [(fate, reason, f"{n:,}") for reason, n in counts[of].items()]
    return [*rows, ("read", "", f"{counts['read']:,}")]


def _bytes(counts: Mapping[str, int]) -> Table:
    rows = [(fate, f"{number:,}") for fate, number in counts.items()]
    return [("fate", "bytes"), *rows[1:], rows[0]]


def _unread(files: Sequence[Mapping[str, Any]]) -> Table:
    return [(f"unread, of {f['name']}", f"{f['unread']:,}") for f in files]


def _not_whole(files: Sequence[Mapping[str, Any]]) -> str:
    names = [f["name"] for f in files if f["doubtful"]]
    if not names:
        return ""
    return f" An unknown amount is missing in, or wrong of: {', '.join(names)}."


def _readings(manifest: Mapping[str, Any]) -> Iterator[CardSection]:
    """Yields sections on dropped markup and detected encodings, if any."""
    if dropped := manifest["counts"].get("dropped_in_sentences"):
        yield CardSection(
            "Dropped inside sentences",
            f"{sum(dropped.values()):,} templates and formulas whose words are not "
            "known. The sentences lack them.",
            [("kind", "times"), *((kind, f"{n:,}") for kind, n in dropped.items())],
        )
    if found := manifest.get("encodings"):
        yield CardSection(
            "Detected encodings",
            "UTF-8 and byte order marks are certain; the least certain files are "
            "listed, all are in the manifest.",
            [("encoding", "files or pages", "least confidence"), *_encodings(found)],
        )


def _encodings(found: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a row per codec, then rows of files whose codec is least certain."""
    files = [row for row in found if "file" in row]
    rows: Table = []
    for codec in sorted({row["codec"] for row in files}):
        of_codec = [row["confidence"] for row in files if row["codec"] == codec]
        rows.append((codec, f"{len(of_codec):,}", f"{min(of_codec):.2f}"))
    for row in found:
        if "web_pages" in row:
            rows.append((row["codec"], f"{row['web_pages']:,} web pages", ""))
    guessed = [row for row in files if row["confidence"] < 1]
    guessed.sort(key=lambda row: (row["confidence"], row["file"]))
    return rows + [
        (row["codec"], row["file"], f"{row['confidence']:.2f}")
        for row in guessed[:_MOST_FILES]
    ]


def _distributions(statistics: Mapping[str, Any]) -> Sequence[CardSection]:
    train = statistics["train"]
    pieces = train["most_frequent"]
    return (
        CardSection(
            "Lengths of the training records",
            "Tokens that are not padding.",
            [],
            draw_bars(train["lengths"], "tokens", "records"),
        ),
        CardSection(
            "Documents in a training record",
            "Or stretches of a document that is longer than a record.",
            [],
            draw_bars(train["documents"], "documents", "records"),
        ),
        CardSection(
            "Pieces",
            f"{train['unused_pieces']:,} pieces of the vocabulary do not occur in the "
            "training records. The most frequent ones:",
            [("piece", "times"), *((p, f"{n:,}") for p, n in pieces)],
        ),
    )


def draw_bars(counts: Sequence[int], what: str, of: str) -> Markup:
    """Draws a bar chart of the number of items with each value.

    Args:
        counts: `counts[i]` is the number of items with the value i.
        what: The name of the value, the label of the horizontal axis.
        of: The name of the items, the label of the vertical axis.

    Returns:
        An `<svg>` element; empty if all counts are 0.
    """
    if not any(counts):
        return Markup()
    # Neighboring values share a bar where a page has no room for all.
    step = -(-len(counts) // _MOST_BARS)
    edges = list(range(0, len(counts) + step, step))
    figure, axes = new_figure(1.8)
    values = range(len(counts))
    # A bar of one value stands above it, one of several between their ends.
    align = "left" if step == 1 else "mid"
    axes.hist(values, edges, weights=counts, align=align, rwidth=0.9, color=COLORS[0])
    axes.set_xlabel(what)
    axes.set_ylabel(of)
    return as_svg(figure, f"{of} by {what}")
