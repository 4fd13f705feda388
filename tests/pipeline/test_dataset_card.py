import re
from html.parser import HTMLParser
from pathlib import Path

from transbeam.pipeline.dataset_card import draw_bars, write_card
from transbeam.pipeline.pages.pictures import COLORS

MANIFEST = {
    "code_version": "0.0.0",
    "config": {
        "objective.kind": "masked",
        "data.source.kind": "text",
        "data.source.path": "a|<b>.txt",
        "tokenizer.kind": "wordpiece",
    },
    "vocabulary": {"size": 8192, "fingerprint": "f" * 64},
    "records_sha256": "0" * 64,
    "sources": [{"name": "a.txt", "bytes": 1500}],
    "shards": [{"bytes": 900}, {"bytes": 100}],
    "features": [
        {"name": "token_ids", "dtype": "int32", "shape": [128], "meaning": "ids"}
    ],
    "leaks_prevented": 17,
    "leaks_left": 0,
    "unread": {
        "bytes": 70,
        "files": [
            {
                "name": "cut|<b>.gz",
                "size": 400,
                "unread": 70,
                "documents": 3,
                "doubtful": True,
                "reasons": ["truncated gzip stream"],
            }
        ],
    },
    "padding_fraction": {"train": 0.0123, "validation": 0.5},
    "counts": {
        "read": 12,
        "documents": {"train": 8, "validation": 1},
        "filtered": {"empty": 2},
        "quarantined": {"not UTF-8": 1},
        "bytes": {
            "source": 1500,
            "used": 1300,
            "filtered": 90,
            "quarantined": 40,
            "unread": 70,
        },
        "records": {"train": 5, "validation": 1},
        "tokens": {"train": 600, "validation": 9},
    },
}
STATISTICS = {
    "train": {
        "lengths": [0, 0, 3, 2],
        "documents": [0, 5],
        "unused_pieces": 8000,
        "most_frequent": [["the", 70], ["<b>|", 3]],
    }
}


class Balanced(HTMLParser):
    """Notes the tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_both_forms_tell_the_numbers(tmp_path: Path) -> None:
    write_card(tmp_path, "demo <1>", MANIFEST, STATISTICS)
    for name in ("card.md", "card.html"):
        text = (tmp_path / name).read_text("utf-8")
        for number in (
            "8,192 pieces",
            "1.23%",
            "8,000",
            "not UTF-8",
            "1,000",
            "17 training documents were dropped",
            "depends on its content alone",
            "Near copies were not looked for",
        ):
            assert number in text, (name, number)


def test_a_validation_source_and_its_leaks_are_told(tmp_path: Path) -> None:
    config = {
        **MANIFEST["config"],
        "data.validation_source.kind": "jsonl",
        "data.deduplication.near.similarity": 0.8,
    }
    write_card(tmp_path, "demo", {**MANIFEST, "config": config}, STATISTICS)
    card = (tmp_path / "card.md").read_text("utf-8")
    assert "from 'text', with validation from 'jsonl', by" in card
    assert "of a source of their own. 17 training documents were dropped" in card
    assert "not looked for" not in card
    assert "training too" not in card
    write_card(tmp_path, "demo", {**MANIFEST, "leaks_left": 4}, STATISTICS)
    card = (tmp_path / "card.md").read_text("utf-8")
    assert "4 validation documents have texts that are in training too." in card


def test_dropped_markup_and_detected_encodings_are_told(tmp_path: Path) -> None:
    encodings = [
        {"file": "a.txt", "codec": "cp1251", "confidence": 0.62},
        {"file": "b.txt", "codec": "cp1251", "confidence": 0.7},
        {"file": "c.txt", "codec": "utf-8", "confidence": 1.0},
        {"web_pages": 7, "codec": "koi8-r"},
    ]
    counts = {**MANIFEST["counts"], "dropped_in_sentences": {"{{price}}": 1234}}
    manifest = {**MANIFEST, "counts": counts, "encodings": encodings}
    write_card(tmp_path, "demo", manifest, STATISTICS)
    card = (tmp_path / "card.md").read_text("utf-8")
    assert "| {{price}} | 1,234 |" in card
    table = card[card.index("| encoding |") :].split("\n\n")[0]
    assert table.splitlines()[2:] == [
        "| cp1251 | 2 | 0.62 |",
        "| utf-8 | 1 | 1.00 |",
        "| koi8-r | 7 web pages |  |",
        "| cp1251 | a.txt | 0.62 |",
        "| cp1251 | b.txt | 0.70 |",
    ]


def test_the_page_is_whole_and_nothing_of_the_data_is_markup(tmp_path: Path) -> None:
    write_card(tmp_path, "demo <1>", MANIFEST, STATISTICS)
    page = (tmp_path / "card.html").read_text("utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "<b>" not in page
    assert "demo &lt;1&gt;" in page
    assert not re.search(r"<script|https?://", page)


def test_tables_in_markdown_have_as_many_cells_in_each_row(tmp_path: Path) -> None:
    write_card(tmp_path, "demo", MANIFEST, STATISTICS)
    tables = re.findall(r"(?:^\|.*\n)+", (tmp_path / "card.md").read_text(), re.M)
    assert len(tables) == 7
    for table in tables:
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(cells) == 1


def heights(picture: str) -> list[float]:
    """The heights of the bars, the tallest is 1."""
    paths = re.findall(rf'<path d="([^"]*)"[^>]*fill: {COLORS[0]}', picture)
    places = [[float(y) for y in re.findall(r" ([\d.]+) \n", d)] for d in paths]
    tall = [max(ys) - min(ys) for ys in places]
    return [round(height / max(tall), 3) for height in tall]


def test_histogram_bars_are_as_tall_as_their_share() -> None:
    picture = draw_bars([0, 4, 2, 0, 1], "tokens", "records")
    assert heights(picture) == [0.0, 1.0, 0.5, 0.0, 0.25]
    assert "aria-label='records by tokens'" in picture
    assert draw_bars([0, 0], "tokens", "records") == ""
    assert draw_bars([], "tokens", "records") == ""


def test_many_values_share_bars() -> None:
    # 57 bars of nine values each
    assert heights(draw_bars([1] * 513, "tokens", "records")) == [1.0] * 57
    assert heights(draw_bars([1] * 65, "tokens", "records")) == [1.0] * 32 + [0.5]


def test_the_same_picture_has_the_same_bytes() -> None:
    assert len({draw_bars([0, 4, 2], "tokens", "records") for _ in range(2)}) == 1


def test_a_picture_needs_nothing_else() -> None:
    picture = draw_bars([0, 4, 2], "<b>", "records")
    assert picture.startswith("<svg ")
    assert not re.search("http|<b>|<script|<image", picture)
    named = re.findall(r' id="(\w+)"', picture)
    assert {f"#{name}" for name in named} == set(re.findall(r"#[mp]\w{10}", picture))
