"""What this version can do with a run beyond its records and its model.

Records can be made for every objective and every tokenizer, and a model be built. Only
some can be trained on and exported so far. Who asks for more hears it before the work
begins, and from `transbeam check`.
"""

from pathlib import Path

from configs.errors import ConfigError
from configs.run import RunConfig
from configs.tokenizer import PretrainedConfig, WordPieceConfig


def check_training(run: RunConfig) -> None:
    """Refuses a run whose records cannot be trained on yet.

    Raises:
        ConfigError: With the key that stands in the way.

    Example:
    >>> from configs.data import DataConfig
    >>> from configs.language_modelling import CausalConfig
    >>> from configs.sources import TextSource
    >>> data = DataConfig(source=TextSource(path="corpus.txt"))
    >>> check_training(RunConfig(name="gpt", data=data, objective=CausalConfig()))
    Traceback (most recent call last):
    configs.errors.ConfigError: objective.kind=causal: its records can be made, ...
    """
    if run.objective.kind != "masked":
        raise ConfigError(
            f"objective.kind={run.objective.kind}: its records can be made, but "
            "this version of Transbeam trains only on those of kind masked. Take "
            "`transbeam data`, and train with the records yourself"
        )
    if run.data.layout.kind != "packed":
        raise ConfigError(
            f"data.layout.kind={run.data.layout.kind}: its records can be made, but "
            "this version of Transbeam trains only on packed ones. Take `transbeam "
            "data`, and train with the records yourself"
        )


def check_export(run: RunConfig) -> None:
    """Refuses a run whose model cannot be exported yet.

    What a tokenizer that is brought along is, only its files say; `serving` looks.

    Raises:
        ConfigError: With the key that stands in the way.
    """
    if run.objective.kind != "masked":
        raise ConfigError(
            f"objective.kind={run.objective.kind}: this version of Transbeam exports "
            "only models of kind masked"
        )
    if not isinstance(run.tokenizer, WordPieceConfig | PretrainedConfig):
        raise ConfigError(
            f"tokenizer.kind={run.tokenizer.kind}: this version of Transbeam exports "
            "only models with a WordPiece tokenizer. Write `kind: wordpiece`; or take "
            "the other stages one by one, `transbeam data` and `transbeam train`"
        )


def check_tokenizer(run: RunConfig) -> None:
    """Refuses a run whose tokenizer is brought along and not there.

    Raises:
        ConfigError: With the key that names it.
    """
    tokenizer = run.tokenizer
    if isinstance(tokenizer, PretrainedConfig) and not Path(tokenizer.path).exists():
        raise ConfigError(
            f"tokenizer.path={tokenizer.path}: there is no such file or folder, and "
            "without a tokenizer no records can be made. Put the tokenizer's files "
            "there that the model was trained with, or name another place"
        )
