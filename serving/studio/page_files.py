"""The files of the studio's page."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePosixPath

PAGE = "index.html"

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing from elsewhere, nothing inline; pictures to save are made in the page itself.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A new version of Transbeam has new files under the same names.
    "Cache-Control": "no-cache",
}


def read_page_files() -> dict[str, tuple[bytes, str]]:
    """Reads all files of the page.

    Returns:
        The content and media type of each file, by its path, such as `try/try.css`.
    """
    top = files("transbeam.serving.studio") / "assets"
    folders = [("", top)]
    folders += [(f"{one.name}/", one) for one in top.iterdir() if one.is_dir()]
    return {
        f"{prefix}{file.name}": (
            file.read_bytes(),
            _MEDIA_TYPES[PurePosixPath(file.name).suffix],
        )
        for prefix, folder in folders
        for file in folder.iterdir()
        if file.is_file()
    }
