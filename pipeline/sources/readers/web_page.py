"""Extracts the text of a web page from an HTTP response."""

import html.parser
import re
import zlib
from email.message import Message
from email.parser import BytesHeaderParser

from transbeam.configs.base.encodings import DETECT, check_encoding
from transbeam.configs.base.errors import ConfigError
from transbeam.pipeline.sources.decoding.encoding_detection import detect
from transbeam.pipeline.sources.decoding.text_decoding import decode
from transbeam.pipeline.sources.files.reading_report import report_page_encoding

HTML_TYPES = ("text/html", "application/xhtml+xml")
_META_BYTES = 4096
_LONGEST_PAGE = 100_000_000
_META_CHARSET = re.compile(rb"<meta[^<>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.I)
# The supersets that browsers use for these labels (WHATWG, Encoding, 4.2).
_SUPERSETS = {
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "iso-8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
}
_SILENT = frozenset({"script", "style", "noscript", "template"})
_INLINE_TAGS = """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label
    mark q s samp small span strike strong sub sup time tt u var wbr
"""
_INLINE = frozenset(_INLINE_TAGS.split())


class UnreadablePage(Exception):
    """A page cannot be decoded; the message is the reason."""


def split_response(raw: bytes) -> tuple[int, Message, bytes]:
    """Splits an HTTP response into status, headers and body.

    Raises:
        UnreadablePage: The bytes do not begin like an HTTP response.
    """
    head, blank, body = raw.partition(b"\r\n\r\n")
    if not blank:
        head, blank, body = raw.partition(b"\n\n")
    status_line, _, header_lines = head.partition(b"\n")
    found = re.match(rb"HTTP/\S+\s+(\d{3})\b", status_line)
    if not found or not blank:
        raise UnreadablePage("not an HTTP response")
    headers = BytesHeaderParser().parsebytes(header_lines)
    headers.set_default_type("text/html")
    return int(found[1]), headers, body


def unpack(body: bytes, headers: Message) -> bytes:
    """Decodes the transfer and content encodings of a body.

    Raises:
        UnreadablePage: The body is damaged, or its content encoding is not supported.
    """
    if str(headers.get("Transfer-Encoding", "")).strip().lower() == "chunked":
        body = _joined_chunks(body)
    coding = str(headers.get("Content-Encoding", "")).strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise UnreadablePage("page compressed in an unknown way")
    try:
        # Some servers send `deflate` without zlib's header.
        raw_deflate = coding == "deflate" and body[:1] not in (b"\x78", b"\x58")
        unpacker = zlib.decompressobj(-15 if raw_deflate else 47)
        page = unpacker.decompress(body, _LONGEST_PAGE)
    except zlib.error as error:
        raise UnreadablePage("damaged compression of a page") from error
    if unpacker.unconsumed_tail:
        raise UnreadablePage(f"page of more than {_LONGEST_PAGE:,} bytes")
    return page


def _joined_chunks(body: bytes) -> bytes:
    """Joins chunks (RFC 9112, 7.1). Some archives store bodies already joined."""
    chunks, rest = [], body
    while rest:
        size_line, _, rest = rest.partition(b"\r\n")
        try:
            size = int(size_line.partition(b";")[0], 16)
        except ValueError:
            return body
        if size == 0:
            break
        chunks.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(chunks)


def find_charset(body: bytes, headers: Message) -> str:
    """Returns the codec that the HTTP header or the page declares, or `detect`."""
    found = _META_CHARSET.search(body, 0, _META_BYTES)
    for declared in (
        str(headers.get_param("charset", "")),
        found[1].decode("ascii", "replace") if found else "",
    ):
        codec = declared.strip("\"' ").lower()
        codec = _SUPERSETS.get(codec, codec)
        try:
            check_encoding(codec)
            return codec
        except ConfigError:
            pass  # none, or an unknown name
    return DETECT


def html_text(page: str) -> str:
    r"""Returns the text of an HTML page, with one line per block element.

    Example:
    >>> html_text("<title>A</title><p>one <b>t</b>wo<script>x()</script><p>3 &lt; 4")
    'A\none two\n3 < 4'
    """
    parser = _TextParser()
    parser.feed(page)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.text).split("\n"))
    return "\n".join(line for line in lines if line)


class _TextParser(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag not in _INLINE:
            self.text.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _INLINE:
            self.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(self._silent - 1, 0)
        elif tag not in _INLINE:
            self.text.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            # Only block elements break lines; line ends in the source are spaces.
            self.text.append(data.replace("\n", " ").replace("\r", " "))


def page_text(body: bytes, headers: Message) -> str:
    """Returns the text of a decoded page.

    Raises:
        UnicodeDecodeError: The page is invalid in its declared encoding, or declares no
            encoding and detection fails.
        UnreadablePage: The HTML cannot be parsed.
    """
    codec = find_charset(body, headers)
    if codec == DETECT:
        codec = detect(body).codec
        report_page_encoding(codec)
    text = decode(body, codec)
    if headers.get_content_type() not in HTML_TYPES:
        return text
    try:
        return html_text(text)
    except AssertionError as error:  # raised by html.parser for an invalid declaration
        raise UnreadablePage("not HTML that parses") from error
