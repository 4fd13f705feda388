"""Links between documents, written as they are between the files of the repository."""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Documents outside of docs/ that are pages of the site, under the same path.
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "bench/RESULTS.md")

_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(
    r"(?<!\\)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<to>[^()\s]+)\)"
)
_EXTERNAL = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


def links(text: str) -> Iterator[str]:
    """The targets of the links of a document that lead to files or headings.

    Example:
    >>> list(links("[a](b.md#c), [d](https://e), `[f](g)`"))
    ['b.md#c']
    """
    bare = _CODE.sub("", _FENCE.sub("", text))
    for match in _LINK.finditer(bare):
        if not _EXTERNAL.match(match["to"]):
            yield match["to"]


def repository_path(page: str) -> str:
    """The file of the repository that a page of the site is made of."""
    return page if page in BESIDE else f"docs/{page}"


def page_path(file: str) -> str | None:
    """The page of the site that a file of the repository becomes, if it becomes one."""
    if file in BESIDE:
        return file
    return file.removeprefix("docs/") if file.startswith("docs/") else None


def for_site(text: str, page: str) -> str:
    """Rewrites links to what the site has elsewhere, and undoes those to other files.

    Args:
        text: The page's Markdown.
        page: Its path below the site's root.

    Example:
    >>> for_site("[all](../bench/RESULTS.md#serving), [file](../setup.py)", "cost.md")
    '[all](bench/RESULTS.md#serving), file (`setup.py`)'
    """

    def rewrite(match: re.Match[str]) -> str:
        path, mark, heading = match["to"].partition("#")
        if _EXTERNAL.match(path) or not path:
            return match[0]
        file = posixpath.normpath(
            posixpath.join(posixpath.dirname(repository_path(page)), path)
        )
        target = page_path(file)
        if target is None:
            return f"{match['text']} (`{file}`)"
        relative = os.path.relpath(target, posixpath.dirname(page) or ".")
        return f"[{match['text']}]({relative}{mark}{heading})"

    return _LINK.sub(rewrite, text)
