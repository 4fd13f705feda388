"""What can be done with a run that was made of a checkpoint."""

import shlex
from pathlib import Path

from configs.abilities import check_export
from configs.errors import ConfigError
from configs.run import RunConfig
from configs.supervised import ImageClassificationConfig
from pipeline.tokenizers.artifact import TokenizerModel


def can_export(config: RunConfig, tokenizer: TokenizerModel | None) -> bool:
    """Whether this version of Transbeam exports a trained model of the run."""
    try:
        check_export(config)
    except ConfigError:
        return False
    return tokenizer is not None


def next_step(
    config: RunConfig, tokenizer: TokenizerModel | None, file: Path, run_folder: Path
) -> str:
    """What to type next, and what is not to be had.

    Args:
        config: The run.
        tokenizer: Its tokenizer; None if there was none.
        file: The run's configuration.
        run_folder: Its folder.
    """
    reads_images = isinstance(config.objective, ImageClassificationConfig)
    if tokenizer is None and not reads_images:
        return (
            "without a tokenizer only Python can use it: put the tokenizer's files "
            "beside the weights and import again"
        )
    words = [str(file)]
    if run_folder != Path("runs", config.name):  # where it is looked for unasked
        words += ["--run", str(run_folder)]
    rest = shlex.join(words)
    edit = f"edit data.source in {file}, then `transbeam"
    if can_export(config, tokenizer):
        return f"{edit} run {rest}`"
    return (
        f"{edit} data {rest}` and `transbeam train {rest}`; this version of Transbeam "
        f"does not export it (`transbeam check {shlex.quote(str(file))}` says why)"
    )
