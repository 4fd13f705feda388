"""Wikitext to plain text: what a reader of the page would read as prose.

Dropped with all they hold: templates, tables, references, formulas, code listings,
galleries, comments, files, categories and links between languages. Kept as their
text: links, headings, list items and formatted words. Templates are not expanded, so
what only a template says (a conversion of units, a transcription) is missing.

One pass over the marks with a stack, so the time is linear in the text whatever is
nested or left open. A mark that is never closed is taken away and its text kept.
"""

import html
import re
from collections import Counter
from collections.abc import Collection

# Names of these namespaces in any wiki; a dump tells its own beside them.
DROPPED_LINKS = frozenset({"file", "image", "media", "category"})
_TAGS_WITHOUT_PROSE = """
    ref references math chem ce score gallery timeline syntaxhighlight source imagemap
    hiero graph mapframe maplink templatestyles templatedata style
"""
_DROPPED_TAGS = frozenset(_TAGS_WITHOUT_PROSE.split())
_BREAKING_TAGS = frozenset({"br", "hr", "p", "div", "li", "tr", "blockquote"})
_DEEPEST = 100  # marks open at once; MediaWiki itself gives up at 40 templates

_MARK = re.compile(
    r"""
      (?P<open>   \{\{ | \[\[ | ^[ \t:]*\{\| )
    | (?P<close>  \}\} | \]\] | ^[ \t]*\|\}(?!\}) )
    | (?P<tag>    <(?P<slash>/?) (?P<name>[a-z][a-z0-9]*) [^<>]* > )
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_OPENED_BY = {"}}": "{{", "]]": "[[", "|}": "{|"}
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_EXTERNAL_LINK = re.compile(
    r"\[(?:https?:|ftp:|mailto:|//)[^\s\[\]]*+[ \t]*+([^\[\]\n]*+)\]", re.IGNORECASE
)
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_EMPTY_BRACKETS = re.compile(r"[ \t]?\([\s,;]*+\)")
_HANGING_MARK = re.compile(r"[,;][ \t]*+(?=\))")
_BLANK_LINES = re.compile(r"\n\s*\n")


def plain_text(wikitext: str, dropped_links: Collection[str] = DROPPED_LINKS) -> str:
    """The prose of a page.

    Args:
        wikitext: The page's source.
        dropped_links: Namespaces, in lower case, whose links show nothing.

    Example:
    >>> plain_text("'''Rye''' {{IPA|raɪ}} is a [[Poaceae|grass]].<ref>Hay, 1999</ref>")
    'Rye is a grass.'
    """
    text = _without_marks(_COMMENT.sub("", wikitext), dropped_links)
    text = _EXTERNAL_LINK.sub(r"\1", text)
    for quotes in ("'''''", "'''", "''"):
        text = text.replace(quotes, "")
    text = html.unescape(_SWITCH.sub("", text))
    # What templates leave of `(''Secale''; {{IPA|...}})` and `({{lang|...}})`.
    text = _EMPTY_BRACKETS.sub("", _HANGING_MARK.sub("", text))
    text = "\n".join(map(_line, text.split("\n")))
    return _BLANK_LINES.sub("\n\n", text).strip()


class _Stack:
    """The text so far, and where in it the marks stand that are still open."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._open: list[tuple[str, int]] = []
        self._counts: Counter[str] = Counter()

    def push(self, mark: str) -> None:
        if len(self._open) < _DEEPEST:
            self._open.append((mark, len(self.text)))
            self._counts[mark] += 1

    def pop(self, mark: str) -> str | None:
        """Takes out the text since the last such mark; None if none is open."""
        if not self._counts[mark]:
            return None
        while True:
            opened, position = self._open.pop()
            self._counts[opened] -= 1
            if opened == mark:
                break
        inner = "".join(self.text[position:])
        del self.text[position:]
        return inner


def _without_marks(wikitext: str, dropped_links: Collection[str]) -> str:
    stack = _Stack()
    end = 0
    for mark in _MARK.finditer(wikitext):
        stack.text.append(wikitext[end : mark.start()])
        end = mark.end()
        if mark["open"]:
            stack.push(mark["open"].lstrip(" \t:"))
        elif mark["close"]:
            opener = _OPENED_BY[mark["close"].lstrip()]
            inner = stack.pop(opener)
            if inner and opener == "[[":
                stack.text.append(_link_text(inner, dropped_links))
        else:
            _tag(mark, stack)
    stack.text.append(wikitext[end:])
    return "".join(stack.text)


def _tag(mark: re.Match[str], stack: _Stack) -> None:
    name = mark["name"].lower()
    if name in _DROPPED_TAGS:
        if mark["slash"]:
            stack.pop(name)
        elif not mark["tag"].endswith("/>"):
            stack.push(name)
    elif name in _BREAKING_TAGS:
        stack.text.append("\n")


def _link_text(inner: str, dropped_links: Collection[str]) -> str:
    target, _, shown = inner.partition("|")
    namespace, colon, _ = target.partition(":")
    if colon and namespace.strip().lower() in dropped_links:
        return ""
    if colon and not shown and _LANGUAGE.fullmatch(namespace):
        return ""
    return shown or target.removeprefix(":")


def _line(line: str) -> str:
    """A line without the marks at its ends: of headings, lists and rules."""
    line = line.strip()
    if len(line) > 2 and line[0] == line[-1] == "=":
        return line.strip("=").strip()
    if line.startswith("----"):
        line = line.lstrip("-")
    return " ".join(line.lstrip("*#:;").split())
