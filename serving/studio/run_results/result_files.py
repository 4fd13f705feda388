"""The pictures and reports of a run that the page can fetch.

A request names one of these files. Its path is looked up in this list and never joined
to a folder, so that no request reaches another file.
"""

from collections.abc import Mapping
from pathlib import Path

from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.studio.studio_error import StudioError

_PATTERNS = (
    "data/card.html",
    "training/report.html",
    "training/loss.png",
    "evaluation/*/report.html",
    "evaluation/*/*/report.html",
    "phone/phone_report.png",
    "analysis/report.html",
    "analysis/*.svg",
    "analysis/*.png",
)
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
# A report has its pictures in it.
_MOST_BYTES = 2**27

# Of an answer with such a file, should anybody open its address: it runs no script,
# sends nothing, has no origin, and is saved.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "sandbox; default-src 'none'; "
    "style-src 'unsafe-inline'; img-src data:",
    "Content-Disposition": "attachment",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def list_files(folder: Path) -> dict[str, Path]:
    """Lists the files of a run that the page can fetch, by their paths in the run.

    Links are left out, also those of folders: they may lead out of the run.

    Args:
        folder: The run's folder.
    """
    whole = folder.resolve()
    found = {}
    for pattern in _PATTERNS:
        for file in sorted(whole.glob(pattern)):
            if file.is_file() and file.resolve() == file:
                found[file.relative_to(whole).as_posix()] = file
    return found


def read_file(folder: Path, name: str) -> tuple[bytes, str]:
    """Reads a file of `list_files`.

    Args:
        folder: The run's folder.
        name: The file's path in the run, as `list_files` returns it.

    Returns:
        Its content and media type.

    Raises:
        StudioError: There is no such file, or it is larger than 128 MiB.
        ArtifactError: It cannot be read.
    """
    file = list_files(folder).get(name)
    if file is None:
        raise StudioError(
            f"the page shows no file {name!r} of this run", is_missing=True
        )
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise StudioError(
                f"{name}: has more than {_MOST_BYTES:,} bytes; open it in the run's "
                "folder"
            )
        return file.read_bytes(), _MEDIA_TYPES[file.suffix]
    except OSError as error:
        raise ArtifactError(f"{name}: cannot be read: {error.strerror}") from None


def existing(folder: Path, name: str) -> str | None:
    """Returns the path of a file if the page can fetch it, else None.

    Args:
        folder: The run's folder.
        name: A path in the run.
    """
    return name if name in list_files(folder) else None
