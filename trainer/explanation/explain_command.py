"""`transbeam explain`: the keys of a configuration, and pictures of what they do."""

from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, writing
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.explain import explain, explain_json
from transbeam.configs.system.keras_backend import take_backend
from transbeam.configs.system.quiet_imports import quiet_import
from transbeam.trainer.explanation.explain_arguments import ExplainArguments


def explain_or_draw(arguments: ExplainArguments) -> dict[str, Any]:
    """Runs `transbeam explain`.

    Returns:
        Of keys, their description; of pictures, `page`, and by name in `pictures` the
        title, the note and the file.

    Raises:
        UserError: There is no such key, no picture of it, or no such run.
    """
    if not arguments.draws:
        if not arguments.json:
            print(explain(arguments.key))
        return explain_json(arguments.key)
    take_backend("train")
    quiet_import("tensorflow", "keras")
    from transbeam.trainer.explanation.explained_parts import explained_parts
    from transbeam.trainer.explanation.explanation_page import explanation_page

    console = Console(json=arguments.json)
    parts = explained_parts(arguments.key, arguments.overrides)
    files: dict[str, str | None] = {}
    if arguments.pictures is not None:
        files = _write_pictures(arguments.pictures, parts.pictures)
        console.result(f"{len(files)} pictures are in {arguments.pictures}")
    if arguments.page is not None:
        write_atomically(arguments.page, explanation_page(parts))
        console.result(f"the page is {arguments.page}")
    return {
        "page": None if arguments.page is None else str(arguments.page),
        "pictures": {
            picture.name: {
                "title": picture.title,
                "note": picture.note,
                "file": files.get(picture.name),
            }
            for picture in parts.pictures
        },
    }


def _write_pictures(folder: Path, pictures: Any) -> dict[str, str | None]:
    from transbeam.pipeline.pages.pictures import save_svg

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    drawn = [picture for picture in pictures if picture.figure is not None]
    for picture in drawn:
        save_svg(picture.figure, folder / f"{picture.name}.svg")
    return {picture.name: str(folder / f"{picture.name}.svg") for picture in drawn}
