"""A page of pictures with their texts, self-contained."""

from pathlib import Path

from transbeam.pipeline.pages.html_templates import render
from transbeam.pipeline.pages.pictures import as_svg
from transbeam.trainer.explanation.explained_parts import ExplainedParts


def explanation_page(parts: ExplainedParts) -> str:
    """Renders the page of a key's kinds, or of a run."""
    drawn = [
        (picture, picture.figure and as_svg(picture.figure, picture.title))
        for picture in parts.pictures
    ]
    return render(
        Path(__file__).parent / "templates" / "explanation.html",
        title=parts.title,
        summary=parts.summary,
        keys=parts.keys,
        pictures=drawn,
    )
