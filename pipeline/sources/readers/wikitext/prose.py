"""Wikitext to plain text: what a reader of the page would read as prose.

Dropped with all they hold: tables, references, formulas, code listings, galleries,
comments, files with their captions, categories and links between languages. Kept as
their text: links, headings of what has text, list items, formatted words, `<nowiki>`,
the first variant of `-{...}-`, and of templates those whose words are known
(`wiki_templates`). What else stood inside a sentence is counted by its kind.

A mark that is never closed is taken away and its text kept. The time is linear in the
text. A parser that builds a tree, mwparserfromhell, takes six times as long; it is what
the tests compare with.
"""

import html
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from transbeam.pipeline.sources.readers.wikitext.markup import (
    DROPPED_LINKS,
    LITERAL,
    PLAIN,
    RESERVED,
    PageText,
)

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LITERAL_TAG = re.compile(r"<(/?)((?i:nowiki|pre))\b[^<>]*>")
_EXTERNAL_LINK = re.compile(
    r"\[(?:https?:|ftp:|mailto:|//)[^\s\[\]]*+[ \t]*+([^\[\]\n]*+)\]", re.IGNORECASE
)
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_TEXT_FOLLOWS = 1_000_000
_EMPTY_BRACKETS = re.compile(r"[ \t]?\([\s,;]*+\)")
_HANGING_MARK = re.compile(r"[,;][ \t]*+(?=\))")
_BLANK_LINES = re.compile(r"\n\s*\n")


class Prose(NamedTuple):
    """The text of a page, and what was dropped inside its sentences.

    Attributes:
        text: Paragraphs, headings and list items, a line each.
        dropped: How often, by kind: `{{name}}`, `<tag>` or `{{{parameter}}}`.
    """

    text: str
    dropped: Counter[str]


def plain_text(wikitext: str, dropped_links: Collection[str] = DROPPED_LINKS) -> str:
    """The text alone of `prose`.

    Example:
    >>> plain_text("'''Rye''' {{IPA|raɪ}} is a [[Poaceae|grass]].<ref>Hay, 1999</ref>")
    'Rye is a grass.'
    """
    return prose(wikitext, dropped_links).text


def prose(
    wikitext: str,
    dropped_links: Collection[str] = DROPPED_LINKS,
    language: str = "en",
) -> Prose:
    """The prose of a page.

    Args:
        wikitext: The page's source.
        dropped_links: Namespaces, in lower case, whose links show nothing.
        language: The wiki's.

    Example:
    >>> prose("It weighs {{convert|5|kg}} and costs {{price|7}}.")
    Prose(text='It weighs 5 kg and costs.', dropped=Counter({'{{price}}': 1}))
    """
    wikitext = _COMMENT.sub("", RESERVED.sub("", wikitext))
    page = PageText(dropped_links, language)
    text = page.without_marks(_with_literals(wikitext))
    text = _EXTERNAL_LINK.sub(r"\1", text)
    for quotes in ("'''''", "'''", "''"):
        text = text.replace(quotes, "")
    text, dropped = page.without_gaps(_SWITCH.sub("", text))
    text = html.unescape(text)
    # What templates leave of `(''Secale''; {{IPA|...}})` and `({{lang|...}})`.
    text = _EMPTY_BRACKETS.sub("", _HANGING_MARK.sub("", text))
    text = "\n".join(_without_empty_headings(text.split("\n"))).translate(PLAIN)
    return Prose(_BLANK_LINES.sub("\n\n", text).strip(), dropped)


def _with_literals(wikitext: str) -> str:
    """The source with the marks inside `<nowiki>` and `<pre>` as plain characters."""
    pieces: list[str] = []
    end, opened = 0, ""
    for tag in _LITERAL_TAG.finditer(wikitext):
        name = tag[2].lower()
        if opened and tag[1] and name == opened:
            pieces.append(wikitext[end : tag.start()].translate(LITERAL))
            end, opened = tag.end(), ""
        elif not (opened or tag[1] or tag[0].endswith("/>")):
            pieces.append(wikitext[end : tag.start()])
            end, opened = tag.end(), name
    return "".join([*pieces, wikitext[end:]])


def _without_empty_headings(lines: list[str]) -> Iterator[str]:
    """Lines without the marks at their ends, and headings only where text follows."""
    kept: list[str] = []
    below = 0  # level of the heading that follows; large for text, 0 for the end
    for line in map(str.strip, reversed(lines)):
        if len(line) > 2 and line[0] == line[-1] == "=":
            level = len(line) - len(line.lstrip("="))
            if below > level:
                kept.append(line.strip("=").strip())
                below = level
        else:
            kept.append(_line(line))
            below = _TEXT_FOLLOWS if kept[-1] else below
    return reversed(kept)


def _line(line: str) -> str:
    """A line without the marks at its ends: of lists and rules."""
    if line.startswith("----"):
        line = line.lstrip("-")
    return " ".join(line.lstrip("*#:;").split())
