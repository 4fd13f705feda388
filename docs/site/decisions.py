"""The page of decisions: a table of all records in docs/adr."""

from pathlib import Path

from docs.site.markdown import table

PATH = "adr/index.md"
FOLDER = Path(__file__).parents[1] / "adr"

_INTRODUCTION = """\
# Decisions

The reasons for design decisions. Each record has the context, the decision and its
consequences, on less than a page. A record that supersedes an earlier one names it.

"""


def page() -> str:
    """Writes the page."""
    rows = []
    for file in sorted(FOLDER.glob("[0-9]*.md")):
        number, _, title = (
            file.read_text("utf-8").partition("\n")[0][2:].partition(". ")
        )
        rows.append([number, f"[{title}]({file.name})"])
    return _INTRODUCTION + table(["", "decision"], rows) + "\n"
