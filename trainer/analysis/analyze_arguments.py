"""Arguments of `transbeam analyze`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transbeam.configs.cli.argument_parser import argument
from transbeam.configs.cli.console import Console


@dataclass(frozen=True, kw_only=True)
class AnalyzeArguments:
    """Arguments of `transbeam analyze`."""

    run_folder: Path = argument(
        "RUN", "a run's folder, with a trained or imported model"
    )
    parts: tuple[str, ...] = argument(
        "--part NAME",
        "make this part only; repeatable; by default all that apply",
        default=(),
    )
    texts: Path | None = argument(
        "--texts FILE",
        "analyze these texts, one per line, instead of the run's records",
    )
    split: Literal["train", "validation"] = argument(
        "--split NAME",
        "the records to analyze: train or validation; validation by default",
        default="validation",
    )
    checkpoint: int | None = argument(
        "--checkpoint STEP",
        "analyze the checkpoint of this step instead of the finished weights",
    )
    max_texts: int = argument(
        "--max-texts N", "largest number of texts; 1000 by default", default=1000
    )
    sparsity_threshold: float = argument(
        "--sparsity-threshold SHARE",
        "weights of attention below are counted as none; 0.001 by default",
        default=0.001,
        type=float,
    )
    distant_tokens: int = argument(
        "--distant-tokens N",
        "tokens further away than N are counted as distant; 16 by default",
        default=16,
    )
    text: int = argument(
        "--text N",
        "number of the text that single predictions are shown of, from 0; 0 by default",
        default=0,
        type=int,
    )
    treebank: Path | None = argument(
        "--treebank FILE",
        "a treebank in CoNLL-U: adds the part syntax, and its relations to roles and "
        "probes",
    )
    entities: Path | None = argument(
        "--entities FILE",
        "words with entity tags in columns, such as of CoNLL 2003: adds them to probes",
    )
    words: tuple[str, ...] = argument(
        "--word WORD",
        "follow this word from layer to layer in the part vectors; repeatable",
        default=(),
    )
    pairs: Path | None = argument(
        "--pairs FILE",
        "a table of pairs (.tsv or .csv) with the columns text, second_text and label: "
        "adds the part pairs",
    )
    tuned_lens: bool = argument(
        "--tuned-lens", "train a tuned lens as well, for 5 minutes at most"
    )
    ablation: Literal["mean", "zero"] = argument(
        "--ablation KIND",
        "what takes the place of an ablated part's output: its mean or zero; mean by "
        "default",
        default="mean",
    )
    patch: tuple[str, ...] = argument(
        "--patch",
        "two texts of as many tokens, and the token that the model should prefer after "
        "each: makes the part patching",
        default=(),
        nargs=4,
        metavar=("CLEAN", "CORRUPTED", "RIGHT", "WRONG"),
    )
    seed: int = argument(
        "--seed N", "seed of all random choices; 0 by default", default=0, type=int
    )
    quiet: bool = argument(
        "--quiet", "print only warnings, errors and requested output"
    )
    json: bool = argument(
        "--json", "print one JSON object on stdout, and everything else on stderr"
    )

    @property
    def console(self) -> Console:
        return Console(quiet=self.quiet, json=self.json)
