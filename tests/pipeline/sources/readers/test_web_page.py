"""Pages as servers send them: packed, chunked, in any encoding, half broken."""

import gzip
import zlib
from email.message import Message

import pytest

from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.readers.web_page import (
    UnreadablePage,
    find_charset,
    html_text,
    page_text,
    split_response,
    unpack,
)


def headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one<p>two<br>three", "one\ntwo\nthree"),
        ("a <b>bold</b>\n  and <i>it</i>alic", "a bold and italic"),
        ("<script>if (a < b) '</p>'</script>x<style>p {}</style>", "x"),
        ("<noscript>no <b>x</b></noscript><template>t</template>y", "y"),
        ("caf&eacute; &#8212; &lt;tag&gt; &unknown;", "café — <tag> &unknown;"),
        ("<ul><li>1<li>2</ul><table><tr><td>a<td>b</table>", "1\n2\na\nb"),
        ("<!-- c --><!doctype html><?php x?>z", "z"),
        ("</p></div></script>end", "end"),
        ("", ""),
    ],
)
def test_text_of_html(page: str, text: str) -> None:
    assert html_text(page) == text


def test_response_by_hand() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nA: b\r\n\r\n<p>\r\n\r\n"
    status, found, body = split_response(raw)
    assert (status, found["a"], body) == (200, "b", b"<p>\r\n\r\n")
    assert split_response(b"HTTP/1.0 404\n\nbody")[::2] == (404, b"body")
    assert split_response(b"HTTP/2 200\r\n\r\n")[1].get_content_type() == "text/html"
    for wrong in (b"", b"<html>", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b"):
        with pytest.raises(UnreadablePage, match="not an HTTP response"):
            split_response(wrong)


def test_unpacking() -> None:
    page = b"<p>text" * 100
    raw_deflate = zlib.compress(page, wbits=-15)
    for coding, body in [
        ("gzip", gzip.compress(page)),
        ("GZIP", gzip.compress(page)),
        ("deflate", zlib.compress(page)),
        ("deflate", raw_deflate),
        ("identity", page),
    ]:
        assert unpack(body, headers(Content_Encoding=coding)) == page
    chunked = b"3;x=y\r\n<p>\r\n4\r\ntext\r\n0\r\nTrailer: 1\r\n\r\n"
    assert unpack(chunked, headers(Transfer_Encoding="chunked")) == b"<p>text"
    # Archives that joined the chunks and kept the header.
    assert unpack(page, headers(Transfer_Encoding="chunked")) == page
    with pytest.raises(UnreadablePage, match="unknown way"):
        unpack(page, headers(Content_Encoding="br"))
    with pytest.raises(UnreadablePage, match="damaged compression"):
        unpack(page, headers(Content_Encoding="gzip"))
    bomb = gzip.compress(bytes(100_000_001), 1)
    with pytest.raises(UnreadablePage, match="page of more than 100,000,000 bytes"):
        unpack(bomb, headers(Content_Encoding="gzip"))


@pytest.mark.parametrize(
    ("declared", "head", "codec"),
    [
        ("text/html; charset=UTF-8", b"", "utf-8"),
        ('text/html; charset="koi8-r"', b'<meta charset="utf-8">', "koi8-r"),
        ("text/html", b'<META name=x><meta charset = "GB2312">', "gb18030"),
        ("text/html; charset=no-such", b"<meta charset=ISO-8859-1>", "cp1252"),
        ("text/html", b"<meta content='text/html; charset=Shift_JIS'>", "cp932"),
        ("text/html", b"<p>charset=utf-8", "detect"),
        ("text/html", b"<meta charset=hex>", "detect"),
        ("text/html", b"<meta charset=idna>", "detect"),
    ],
)
def test_charset(declared: str, head: bytes, codec: str) -> None:
    assert find_charset(head, headers(Content_Type=declared)) == codec


def test_page_without_a_declared_charset() -> None:
    text = (
        "Съешь ещё этих мягких французских булок, да выпей чаю. Они были вкусные, да."
    )
    report = ReadingReport()
    body = f"<p>{text}".encode("koi8-r")
    pages = (page_text(body, headers(Content_Type="text/html")) for _ in range(2))
    assert list(reported(pages, report)) == [text, text]
    assert report.page_encodings == {"koi8-r": 2}


def test_text_of_a_page() -> None:
    html = headers(Content_Type="text/html; charset=windows-1251")
    assert page_text("<p>Ещё".encode("cp1251"), html) == "Ещё"
    plain = headers(Content_Type="text/plain; charset=utf-8")
    assert page_text(b"a <b\n  c", plain) == "a <b\n  c"
    with pytest.raises(UnicodeDecodeError):
        page_text(b"caf\xe9", plain)
    with pytest.raises(UnreadablePage, match="not HTML that parses"):
        page_text(b"<![x[ y", headers(Content_Type="text/html"))
