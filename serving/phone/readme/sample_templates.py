"""Templates of the README for phones and its code samples, in three languages."""

from collections.abc import Mapping
from importlib.resources import files
from string import Template

LANGUAGES = ("python", "kotlin", "swift")

# The code sample of each signature, in `templates/uses`.
USES = {
    "classify_ids": "classify",
    "regress_ids": "regress",
    "fill_mask": "masked",
    "tag_ids": "tag",
    "read_ids": "read",
    "classify_pixels": "classify",
    "regress_pixels": "regress",
    "decode": "write",
    "embed": "embed",
}
# In place of `classify`, for models that assign any number of labels.
LABEL_SET = "label_set"


def template(name: str) -> str:
    """Reads a file of `templates`."""
    folder = files("transbeam.serving.phone.readme") / "templates"
    return (folder / name).read_text("utf-8")


def filled(name: str, values: Mapping[str, str]) -> str:
    """Renders a template.

    Args:
        name: Name of the file in `templates`.
        values: The values of all placeholders in the file.
    """
    return Template(template(name)).substitute(values)
