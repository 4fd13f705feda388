"""Hooks that MkDocs calls while it builds the site: see `mkdocs.yml`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs.site.generated import pages
from docs.site.links import BESIDE, ROOT, for_site

# Elements that a browser loads by itself from another server.
_FOREIGN = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//"
    r"|<link\b(?![^>]*rel=[\"']?(?:canonical|next|prev))[^>]*\bhref=[\"']?(?:https?:)?//",
    re.IGNORECASE,
)


# MkDocs is in an environment of its own, where alone these functions are called.


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are made of code, and the documents outside of docs/."""
    from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

    written: dict[str, Callable[[], str]] = pages()
    for path, write in written.items():
        files.append(File.generated(config, path, content=write()))
    for path in BESIDE:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        for picture in Path(ROOT / path).parent.glob("*.svg"):
            source = picture.relative_to(ROOT).as_posix()
            if files.get_file_from_path(source) is None:
                files.append(File.generated(config, source, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as the site has them."""
    return for_site(markdown, page.file.src_uri)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that would have a browser ask another server.

    Raises:
        PluginError: It would.
    """
    from mkdocs.exceptions import PluginError  # pyright: ignore[reportMissingImports]

    if match := _FOREIGN.search(output):
        line = output[match.start() :].partition("\n")[0][:120]
        raise PluginError(f"{page.file.src_uri} loads from another server: {line}")
    return output
