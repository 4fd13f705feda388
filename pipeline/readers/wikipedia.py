"""Wikipedia dumps: MediaWiki's XML export, one document for each article.

The file is parsed as it is decompressed, page by page; a page's offset is its id
(`https://<wiki>/?curid=<id>` shows it).
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from configs.sources import WikipediaSource
from pipeline.cleaning import excerpt
from pipeline.documents import Document, Filtered, Rejected
from pipeline.readers.files import BrokenFile, open_file
from pipeline.readers.wikitext import DROPPED_LINKS, plain_text
from pipeline.spans import Span

_ARTICLE = "0"
_FILE_AND_CATEGORY = ("6", "14")


def read(
    span: Span, source: WikipediaSource
) -> Iterator[Document | Filtered | Rejected]:
    """An outcome for each page: articles as documents, other pages as `Filtered`.

    Raises:
        BrokenFile: The XML breaks off or is damaged.
    """
    dropped_links = set(DROPPED_LINKS)
    above: list[Element] = []
    last = 0
    with open_file(span.file) as stream:
        try:
            for event, element in ElementTree.iterparse(stream, ("start", "end")):
                if event == "start":
                    above.append(element)
                    continue
                above.pop()
                name = _local(element)
                if name == "namespace":
                    if element.get("key") in _FILE_AND_CATEGORY and element.text:
                        dropped_links.add(element.text.lower())
                elif name == "page":
                    outcome = _page(element, span.file.name, dropped_links)
                    yield outcome
                    last = outcome.offset
                    # The tree would grow to the size of the dump.
                    above[-1].clear() if above else element.clear()
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise BrokenFile("damaged XML", str(error), last) from error


def _page(
    page: Element, source: str, dropped_links: set[str]
) -> Document | Filtered | Rejected:
    fields = {_local(child): child for child in page}
    number = _text(fields.get("id")).strip()
    if not number.isdecimal() or "revision" not in fields:
        title = _text(fields.get("title"))
        return Rejected("page without id or text", source, 0, excerpt(title))
    # The last revision: in a dump with the history, the newest.
    revision = {_local(child): child for child in fields["revision"]}
    if _text(fields.get("ns")).strip() not in ("", _ARTICLE):
        return Filtered("not an article", source, int(number))
    if "redirect" in fields:
        return Filtered("redirect", source, int(number))
    if _text(revision.get("model")).strip() not in ("", "wikitext"):
        return Filtered("not wikitext", source, int(number))
    text = plain_text(_text(revision.get("text")), dropped_links)
    return Document(text, source, int(number))


def _local(element: Element) -> str:
    """An element's name without the export format's version."""
    return element.tag.rpartition("}")[2]


def _text(element: Element | None) -> str:
    return "" if element is None else element.text or ""
