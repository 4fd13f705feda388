"""Folders of runs that have a model, as far as a configuration looks into them."""

from pathlib import Path

from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
)
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.loader.yaml_config import load_run, parse_run
from transbeam.configs.schema.run import RunConfig

TASKS = Path(__file__).parents[1] / "configs/tasks"
# As `transbeam import` reads all-MiniLM-L6-v2.
MINILM = """\
name: minilm
data: {source: {kind: text, path: put-your-corpus-here}}
tokenizer: {kind: pretrained, path: runs/minilm/imported/tokenizer}
model:
  num_layers: 6
  hidden_dim: 384
  num_segments: 2
  attention: {num_heads: 12}
  feedforward: {intermediate_dim: 1536}
  pooler: {projection: true}
"""


def imported_run(folder: Path, config: RunConfig, *, tokenizer: bool = True) -> Path:
    """Makes what `transbeam import` makes, with empty files."""
    stage = Stage(folder, IMPORTED, "transbeam import")
    stage.begin({})
    (stage.path / INITIAL_WEIGHTS).touch()
    if tokenizer:
        (stage.path / TOKENIZER).mkdir()
    save_config(folder, config)
    stage.finish({}, {})
    return folder


def trained_run(folder: Path, config: RunConfig) -> Path:
    """Makes what `transbeam data` and `train` make, with empty files."""
    (folder / "data" / TOKENIZER).mkdir(parents=True)
    stage = Stage(folder, "training", "transbeam train")
    stage.begin({})
    (stage.path / WEIGHTS).touch()
    save_config(stage.path, config)
    stage.finish({}, {})
    return folder


def runs_before_tasks(folder: Path) -> None:
    """Makes the runs that files of `configs/tasks` begin with."""
    imported_run(folder / "minilm", parse_run(MINILM, "minilm.yaml"))
    for name in ("ag_news_pretraining", "ewt_pretraining"):
        config = load_run(TASKS / f"{name}.yaml")
        trained_run(folder / config.name, config)
