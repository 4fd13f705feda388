"""Contents of a page: the pictures of a run, or of all kinds of a key."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.loader.explain import explain
from transbeam.configs.loader.summary import summary
from transbeam.configs.loader.yaml_config import load_run
from transbeam.trainer.explanation.kind_pictures import DRAWN_KEYS
from transbeam.trainer.explanation.picture import Picture
from transbeam.trainer.explanation.run_pictures import draw_run

_COLUMNS = 84  # of a page


class ExplainedParts(NamedTuple):
    """Contents of a page.

    Attributes:
        title: The key, or the run's name.
        summary: A few lines on a run.
        keys: A list of keys below the pictures.
        pictures: The pictures, in order.
    """

    title: str
    summary: str
    keys: str
    pictures: list[Picture]


def explained_parts(what: str, overrides: Sequence[str] = ()) -> ExplainedParts:
    """Draws the pictures of a key's kinds, or of a run.

    Args:
        what: A key of which there are pictures, the YAML file of a run, or its folder;
            empty for all keys of which there are pictures.
        overrides: `KEY=VALUE` overrides of the run.

    Raises:
        ConfigError: There are no pictures of the key, or the configuration is invalid.
    """
    if what in ("", *DRAWN_KEYS):
        if overrides:
            named = f"{what} is a key" if what else "none is named"
            raise ConfigError(f"--set {overrides[0]}: is for a run, and {named}")
        if not what:
            every = [picture for draw in DRAWN_KEYS.values() for picture in draw()]
            return ExplainedParts("Kinds", "", "", every)
        keys = explain(what, width=_COLUMNS)
        return ExplainedParts(what, "", keys, DRAWN_KEYS[what]())
    path = Path(what)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{what}: there are pictures of {', '.join(DRAWN_KEYS)}, and of a "
            f"run: its YAML file, or its folder.{did_you_mean(what, DRAWN_KEYS)}"
        )
    run = load_run(path, overrides, with_model=True)
    return ExplainedParts(run.name, summary(run), "", draw_run(run, path))
