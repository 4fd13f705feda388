"""Jinja templates of pages, with a layout and a style that all pages share."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def render(template: Path, **values: Any) -> str:
    """Renders a template; strings among the values are HTML-escaped.

    Args:
        template: Its file. A template may extend `page.html`, and import from
            `parts.html`.
        **values: The values of the template's variables. Values of the type `Markup`
            are not escaped.

    Example:
    >>> render(TEMPLATES / "page.html", title="A & B").splitlines()[-2]
    '<body><h1>A &amp; B</h1>'
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template.name).render(values)
