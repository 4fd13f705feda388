"""Removes the markup of wikitext: templates, links, tables, tags, language variants.

The text is parsed in a single pass with a stack, so the time is linear in the length of
the text, regardless of nesting and unclosed markup. Dropped markup that may be a part
of a sentence is replaced by a gap, a placeholder character for the kind of markup, so
that a later pass can determine whether the markup was inside a sentence.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from transbeam.pipeline.sources.readers.wikitext.templates import (
    split_template,
    template_words,
)

# Names of these namespaces in all wikis; a dump lists its own besides.
DROPPED_LINKS = frozenset(
    {"file", "image", "media", "category"}
    # Aliases of the category namespace that dumps do not list: localized names in wikis
    # with the English name, and former names.
    | {"分类", "分類", "カテゴリ", "분류", "kategorie", "catégorie", "categoría"}
    | {"categoria", "categorie", "kategoria", "kategori", "kategória", "kategorija"}
    | {"категория", "категорія", "катэгорыя", "категорија", "рубрика", "κατηγορία"}
    | {"קטגוריה", "تصنيف", "رده", "श्रेणी", "বিষয়শ্রেণী", "หมวดหมู่", "thể loại"}
    | {"luokka", "flokkur", "ulamm", "kategorio", "կատեգորիա", "კატეგორია"}
)
_TAGS_WITHOUT_PROSE = """
    ref references math chem ce score gallery timeline syntaxhighlight source imagemap
    hiero graph mapframe maplink templatestyles templatedata style
"""
_DROPPED_TAGS = frozenset(_TAGS_WITHOUT_PROSE.split())
# Those of them that are a part of their sentence.
_TAGS_IN_SENTENCES = frozenset(
    {"math", "chem", "ce", "score", "hiero", "syntaxhighlight", "source"}
)
_BREAKING_TAGS = frozenset({"br", "hr", "p", "div", "li", "tr", "blockquote"})
_DEEPEST = 100  # maximum nesting of markup; MediaWiki's own limit is 40 templates

# Each alternative begins with a rare character, which the engine finds quickly.
_MARK = re.compile(
    r"\{\{+|\}\}+-?|\[\[|\]\]|-\{(?!\{)|\}-|\{\|(?!\})|\|\}(?!\})"
    r"|</?[A-Za-z][A-Za-z0-9]*[^<>]*>"
)
_TAG = re.compile(r"<(/?)([A-Za-z0-9]+)")
_LINE_BEGINS = 20  # only spaces and colons may precede table markup
_OPENED_BY = {"]]": "[[", "}-": "-{", "|}": "{|"}
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
# File names have the same suffixes in all languages, but other words for `File`.
_FILE = re.compile(
    r"[^:]*\.(?:jpe?g|png|gif|svg|tiff?|webp|xcf|pdf|djvu|og[agv]|oga|webm|mp[34g]|mpe?g|"
    r"wav|flac|opus|midi?|stl)\s*",
    re.IGNORECASE | re.DOTALL,
)
_VARIANT = re.compile(r"\s*(?:[^;:=]*=>)?\s*[a-z]{2,3}(?:-[a-z]+)*\s*:", re.IGNORECASE)
_NEXT_VARIANT = re.compile(r";(?=\s*(?:\Z|[^;:]*:))")
# Escaped characters of literal markup, and gaps, are code points of the last private
# use plane, which texts do not contain.
LITERAL = {ord(c): 0x10_F000 + ord(c) for c in "[]{}|=<>'-_*#: "}
_ARGUMENT = {ord(c): LITERAL[ord(c)] for c in "|="}
PLAIN = {text: mark for mark, text in LITERAL.items()}
_FIRST_GAP, _MOST_GAPS = 0x10_0000, 0xF000
_GAP = re.compile("[\U00100000-\U0010efff]")
_GAPS = re.compile("(?:[ \t]?[\U00100000-\U0010efff])+")
RESERVED = re.compile("[\U00100000-\U0010ffff]")


class _Opened(NamedTuple):
    """Unclosed markup: `count` opening braces, or another opening token."""

    mark: str
    position: int
    count: int


class PageText:
    """The text parsed so far, the positions of unclosed markup in the text, and gaps.

    A gap is a placeholder character for dropped markup.
    """

    def __init__(self, dropped_links: Collection[str], language: str) -> None:
        self._dropped_links = dropped_links
        self._language = language
        self._text: list[str] = []
        self._open: list[_Opened] = []
        self._counts: Counter[str] = Counter()
        self._gaps: dict[str, str] = {}

    def without_marks(self, wikitext: str) -> str:
        """Removes markup; dropped content is replaced by gaps."""
        end = 0
        for mark in _MARK.finditer(wikitext):
            self._text.append(wikitext[end : mark.start()])
            end = mark.end()
            text = mark[0]
            if text[0] == "<":
                self._tag(text)
            elif text[:2] == "{{":
                self._push("{", len(text))
            elif text[:2] == "}}":
                self._close_braces(text)
            elif text in ("{|", "|}") and not _begins_a_line(wikitext, mark.start()):
                self._text.append(text)
            elif text in ("[[", "-{", "{|"):
                self._push(text)
            else:
                self._close(text)
        self._text.append(wikitext[end:])
        return "".join(self._text)

    def without_gaps(self, text: str) -> tuple[str, Counter[str]]:
        """Removes placeholders; returns text and counts of dropped markup by kind."""
        kinds = {character: kind for kind, character in self._gaps.items()}
        dropped: Counter[str] = Counter()
        lines = text.split("\n") if kinds else []
        for number, line in enumerate(lines):
            if found := _GAP.findall(line):
                rest = _GAP.sub("", line)
                # A template alone on its line is a box or a note about the page.
                if any(map(str.isalnum, rest)) or line.startswith(("*", "#")):
                    dropped.update(kinds[character] for character in found)
                lines[number] = _GAPS.sub(_closed, line)
        return ("\n".join(lines) if kinds else text), dropped

    def _push(self, mark: str, count: int = 1) -> None:
        if mark == "-{":
            self._text.append(mark)  # if unclosed, these are two literal characters
        if len(self._open) < _DEEPEST:
            self._open.append(_Opened(mark, len(self._text), count))
            self._counts[mark] += 1

    def _pop(self, mark: str) -> tuple[int, str] | None:
        """Pops the last unclosed markup of a kind; returns None if there is none.

        Returns:
            The number of braces of the markup, and the text after it.
        """
        if not self._counts[mark]:
            return None
        while True:
            opened = self._open.pop()
            self._counts[opened.mark] -= 1
            if opened.mark == mark:
                break
        inner = "".join(self._text[opened.position :])
        del self._text[opened.position :]
        return opened.count, inner

    def _close_braces(self, closing: str) -> None:
        """Matches closing braces: three end a parameter, two a template."""
        left = closing.count("}")
        while left >= 2 and (popped := self._pop("{")):
            count, inner = popped
            used = min(count, left, 3)
            left -= used
            if count - used == 1:
                self._text.append("{")
            elif count > used:
                self._push("{", count - used)
            shown = self._parameter(inner) if used == 3 else self._template(inner)
            self._text.append(shown)
        if closing.endswith("-"):
            if left == 1 and self._counts["-{"]:
                self._close("}-")
                return
            self._text.append("}-" if left == 1 else "-")
        elif left == 1:
            self._text.append("}")

    def _template(self, inner: str) -> str:
        name, arguments = split_template(inner)
        words = template_words(name, arguments, self._language)
        if words is not None:
            return words.translate(_ARGUMENT)
        if "\n" in inner:
            return ""  # a box
        name = _GAP.sub("", name.lower())
        function, colon, _ = name.partition(":")
        return self._gap("{{" + (function + colon if colon else name)[:60] + "}}")

    def _parameter(self, inner: str) -> str:
        _, bar, default = inner.partition("|")
        return default if bar else self._gap("{{{parameter}}}")

    def _gap(self, kind: str) -> str:
        """Returns the placeholder for a kind of dropped markup."""
        number = len(self._gaps) % _MOST_GAPS
        return self._gaps.setdefault(kind, chr(_FIRST_GAP + number))

    def _close(self, mark: str) -> None:
        popped = self._pop(_OPENED_BY[mark])
        if mark == "}-":
            if popped:
                del self._text[-1:]  # the mark itself
                self._text.append(_variant(popped[1]))
            else:
                self._text.append(mark)
        elif popped and popped[1] and mark == "]]":
            shown = _link_text(popped[1], self._dropped_links)
            self._text.append(shown.translate(_ARGUMENT))

    def _tag(self, tag: str) -> None:
        slash, name = _TAG.findall(tag)[0]
        name = name.lower()
        if name in _DROPPED_TAGS:
            if not slash:
                if not tag.endswith("/>"):
                    self._push(name)
            elif self._pop(name) and name in _TAGS_IN_SENTENCES:
                self._text.append(self._gap(f"<{name}>"))
        elif name in _BREAKING_TAGS:
            self._text.append("\n")


def _begins_a_line(wikitext: str, at: int) -> bool:
    before = wikitext[max(at - _LINE_BEGINS, 0) : at]
    _, newline, rest = before.rpartition("\n")
    return not rest.strip(" \t:") and (bool(newline) or at <= _LINE_BEGINS)


def _closed(gaps: re.Match[str]) -> str:
    """Removes gaps from a run of gaps and spaces; before punctuation, also spaces."""
    following = gaps.string[gaps.end() : gaps.end() + 1]
    return "" if following and following in ",.;:!?" else _GAP.sub("", gaps[0])


def _link_text(inner: str, dropped_links: Collection[str]) -> str:
    target, _, shown = inner.partition("|")
    namespace, colon, title = target.partition(":")
    if namespace and colon:
        if namespace.strip().lower() in dropped_links or _FILE.fullmatch(title):
            return ""
        if not shown and _LANGUAGE.fullmatch(namespace):
            return ""
    return shown or target.removeprefix(":")


def _variant(inner: str) -> str:
    """Returns the text of `-{...}-` in its first language variant."""
    flags, bar, text = inner.partition("|")
    if not bar:
        flags, text = "", inner
    if set(flags.upper().replace(" ", "").split(";")) & {"H", "T", "-"}:
        return ""
    if not _VARIANT.match(text):
        return text
    variants = _NEXT_VARIANT.split(text)
    return variants[0].partition(":")[2].strip()
