"""Arguments of `transbeam explain`."""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.argument_parser import argument


@dataclass(frozen=True, kw_only=True)
class ExplainArguments:
    """Arguments of `transbeam explain`."""

    key: str = argument(
        "KEY",
        "show only this part, such as model.position; with --page or --pictures also "
        "the YAML file of a run, or a run's folder",
        default="",
    )
    page: Path | None = argument(
        "--page FILE", "write a page of pictures, instead of the list of keys"
    )
    pictures: Path | None = argument(
        "--pictures DIR", "write the pictures as SVG files into a folder"
    )
    overrides: tuple[str, ...] = argument(
        "--set KEY=VALUE",
        "override a key of the run whose pictures are drawn; repeatable",
        default=(),
    )
    json: bool = argument("--json", "print one JSON object")

    @property
    def draws(self) -> bool:
        """True if pictures are written."""
        return self.page is not None or self.pictures is not None

    def __post_init__(self) -> None:
        if self.page is not None and not self.page.parent.is_dir():
            raise ConfigError(
                f"--page {self.page}: there is no folder {self.page.parent}. Make it "
                "first"
            )
        if not self.draws and Path(self.key).suffix in (".yaml", ".yml"):
            raise ConfigError(
                f"{self.key}: is a file, and explain lists the keys of any file, such "
                "as `transbeam explain model.position`. Pictures of this one: --page "
                f"FILE; check it: `transbeam check {self.key}`"
            )
        if not self.draws and self.overrides:
            raise ConfigError(
                f"--set {self.overrides[0]}: is for a run whose pictures are drawn. "
                "Add --page FILE, or remove it"
            )
