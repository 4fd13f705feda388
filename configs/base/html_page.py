"""One page of HTML that needs no script, no network and no other file."""

import html

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto;
       padding: 0 1rem; color: #1c2733; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin: 2rem 0 .25rem }
table { border-collapse: collapse; font-size: .9rem;
        font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; vertical-align: top;
         border-bottom: 1px solid #dde3ea; overflow-wrap: anywhere }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif;
fill: #51606f } svg rect { fill: #2f6fb2 }
@media (prefers-color-scheme: dark) { body { background: #14191f; color: #dfe6ee }
th, td { border-color: #313b46 } svg text { fill: #9fb0c0 } svg rect { fill: #6aa8e6 } }
"""


def page(title: str, body: str, style: str = "") -> str:
    """Renders a complete HTML page.

    Args:
        title: Plain text.
        body: HTML below the title.
        style: CSS in addition to that of all pages.

    Example:
    >>> page("A & B", "<p>text</p>").splitlines()[-1]
    '<p>text</p></body></html>'
    """
    title = html.escape(title)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{STYLE}{style}</style></head>\n"
        f"<body><h1>{title}</h1>\n{body}</body></html>\n"
    )
