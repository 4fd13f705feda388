"""Reads Wikipedia dumps: MediaWiki's XML export, one document per article.

The file is decompressed and parsed as a stream, page by page; the offset of a page is
its id (as in the page's address `https://<wiki>/?curid=<id>`). After damaged XML
reading continues with the next page.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element

from transbeam.configs.schema.sources import WikipediaSourceConfig
from transbeam.pipeline.documents.document import (
    Damage,
    Document,
    Filtered,
    Rejected,
    Span,
)
from transbeam.pipeline.sources.files.file_access import (
    gaps_in,
    open_file,
    source_offset,
)
from transbeam.pipeline.sources.files.reading_report import report_dropped
from transbeam.pipeline.sources.readers.wikitext.markup import DROPPED_LINKS
from transbeam.pipeline.sources.readers.wikitext.prose import prose

_ARTICLE = "0"
_FILE_AND_CATEGORY = ("6", "14")
_ROOT, _END, _PAGE = b"<mediawiki>", b"</mediawiki>", b"<page>"
_LONGEST_LINE = 1 << 16
_DAMAGE = (ElementTree.ParseError, ValueError, LookupError)


_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Each language has its own keyword, and list items begin differently. Categories,
# templates and comments may follow.
_REDIRECT = re.compile(
    r"\s*#\w+\s*:?\s*\[\[[^\[\]]+\]\]"
    r"(?:\s|\[\[[^\[\]]*:[^\[\]]*\]\]|\{\{[^{}]*\}\}|<!--.*?-->)*\Z",
    re.DOTALL,
)


@dataclass
class _Wiki:
    """The properties of a wiki that are read from its dump."""

    language: str = "en"
    dropped_links: set[str] = field(default_factory=lambda: set(DROPPED_LINKS))


def read(
    span: Span, source: WikipediaSourceConfig
) -> Iterator[Document | Filtered | Rejected]:
    """Yields an outcome per page: articles as documents, other pages as `Filtered`.

    Raises:
        BrokenFile: The compressed file is truncated or damaged.
    """
    wiki = _Wiki()
    name = span.file.name
    last = 0
    with open_file(span.file) as stream:
        for found in _elements(stream):
            if isinstance(found, Damage):
                yield Rejected(
                    found.reason,
                    name,
                    last,
                    found.detail,
                    unread=found.unread or 0,
                    doubtful=found.doubtful,
                )
            elif _local(found) == "namespace":
                if found.get("key") in _FILE_AND_CATEGORY and found.text:
                    wiki.dropped_links.add(found.text.lower())
            elif _local(found) == "mediawiki":
                wiki.language = found.get(_LANGUAGE, wiki.language)
            else:
                outcome = _page(found, name, wiki)
                yield outcome
                last = outcome.offset


def _elements(stream: BinaryIO) -> Iterator[Element | Damage]:
    """Yields the root element (at its start tag), each namespace and each page.

    Invalid XML up to the next page is reported as one `Damage`.
    """
    parser = _Parser()
    gaps = gaps_in(stream)
    offset, place, found = 0, 0, False
    damage, last = "", b""
    for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
        last = line.strip() or last
        start, offset = offset, offset + len(line)
        rest = _from_page(line, 0) if damage else line
        while rest:
            if damage:
                unread = source_offset(stream) - len(rest) - place
                yield Damage("damaged XML", damage, unread=unread)
                damage, parser = "", _Parser(_ROOT)
            before = parser.num_pages
            try:
                for element in parser.feed(rest, start):
                    found = True
                    if any(parser.page < gap < offset for gap in gaps):
                        yield Damage("torn by a damaged stretch of the file", unread=0)
                    else:
                        yield element
                rest = b""
            except _DAMAGE as error:
                damage, place = str(error), source_offset(stream) - len(rest)
                rest = _from_page(rest, parser.num_pages - before)
    if damage:
        cut = found and not last.endswith(_END)
        unread = source_offset(stream) - place
        yield Damage("damaged XML", damage, unread=unread, doubtful=cut)
        return
    try:
        parser.close()
    except _DAMAGE as error:
        yield Damage("truncated XML", str(error), unread=0, doubtful=True)


def _from_page(line: bytes, number: int) -> bytes:
    """Returns a line from page tag `number` (from 0) on; empty without such a tag."""
    index = -1
    for _ in range(number + 1):
        index = line.find(_PAGE, index + 1)
        if index < 0:
            return b""
    return line[index:]


class _Parser:
    """An incremental parser for the root, namespaces and pages of the XML.

    Args:
        beginning: XML to parse before the first chunk of the dump.

    Attributes:
        page: The offset of the page that started last.
        num_pages: The number of page start tags parsed so far.
    """

    def __init__(self, beginning: bytes = b"") -> None:
        self._parser = ElementTree.XMLPullParser(("start", "end"))
        self._above: list[Element] = []
        self._in_page = False
        self.page = 0
        self.num_pages = 0
        self._parser.feed(beginning)

    def feed(self, piece: bytes, offset: int) -> Iterator[Element]:
        """Parses a chunk at `offset`; yields the elements that end in it.

        The root element is yielded at its start tag, for its attributes.

        Raises:
            ParseError, ValueError, LookupError: The text is invalid XML, or not a dump.
        """
        self._parser.feed(piece)
        events: Iterator[Any] = self._parser.read_events()
        for event, element in events:
            name = _local(element)
            if event == "start":
                if name == "page":
                    if self._in_page:
                        raise ValueError("a page begins within a page")
                    self._in_page, self.page = True, offset
                    self.num_pages += 1
                if not self._above and name == "mediawiki":
                    yield element
                self._above.append(element)
                continue
            self._above.pop()
            if name == "namespace":
                yield element
            elif name == "page":
                yield element
                self._in_page = False
                # Otherwise the tree would grow to the size of the dump.
                self._above[-1].clear() if self._above else element.clear()

    def close(self) -> None:
        """Ends the parsing.

        Raises:
            ParseError: The XML text ends before the root element does.
        """
        self._parser.close()
        list(self._parser.read_events())


def _page(page: Element, source: str, wiki: _Wiki) -> Document | Filtered | Rejected:
    fields = {_local(child): child for child in page}
    number = _text(fields.get("id")).strip()
    if not number.isdecimal() or "revision" not in fields:
        title = _text(fields.get("title"))
        return Rejected.from_content("page without id or text", source, 0, title)
    # The last revision, which is the newest in dumps with history.
    revision = {_local(child): child for child in fields["revision"]}
    text = _text(revision.get("text"))
    if _text(fields.get("ns")).strip() not in ("", _ARTICLE):
        return Filtered("not an article", source, int(number), len(text))
    # Dumps mark only redirects with known targets.
    if "redirect" in fields or _REDIRECT.match(text):
        return Filtered("redirect", source, int(number), len(text))
    if _text(revision.get("model")).strip() not in ("", "wikitext"):
        return Filtered("not wikitext", source, int(number), len(text))
    found = prose(text, wiki.dropped_links, wiki.language)
    report_dropped(found.dropped)
    return Document(found.text, source, int(number))


def _local(element: Element) -> str:
    """Returns an element's name without its XML namespace."""
    return element.tag.rpartition("}")[2]


def _text(element: Element | None) -> str:
    return "" if element is None else element.text or ""
