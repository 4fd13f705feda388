"""`transbeam analyze`, step by step."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import find_model_files
from transbeam.configs.loader.run_folder import lock
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.analysis.analysis_context import AnalysisContext, AnalyzedTexts
from transbeam.trainer.analysis.analysis_files import (
    FINGERPRINT,
    FOLDER,
    REPORT,
    write_analysis,
)
from transbeam.trainer.analysis.analysis_part import AnalysisPart
from transbeam.trainer.analysis.analyze_arguments import AnalyzeArguments
from transbeam.trainer.analysis.analyzed_model import AnalyzedModel, load_analyzed_model
from transbeam.trainer.analysis.heads import analyze_heads
from transbeam.trainer.analysis.text_reading import read_records, read_text_file

MakePart = Callable[[AnalysisContext, AnalyzeArguments], AnalysisPart]


def _heads(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_heads(
        context,
        sparsity_threshold=arguments.sparsity_threshold,
        distant_tokens=arguments.distant_tokens,
    )


PARTS: Mapping[str, MakePart] = {"heads": _heads}


def analyze_run(arguments: AnalyzeArguments) -> dict[str, Any]:
    """Analyzes the model of a run, and writes the run's folder `analysis`.

    Args:
        arguments: The run, the texts and the parts.

    Returns:
        `path`, the folder of the files; `report`, the page; `parts`, a summary of each
        part that was made; and `kept`, the names of parts that an earlier analysis of
        the same weights has left there.

    Raises:
        UserError: The model or the texts cannot be read, or an argument is
            out of range.
    """
    run_folder, console = arguments.run_folder, arguments.console
    names = choose_parts(arguments.parts)
    find_model_files(run_folder)  # before the lock, which makes the folder
    with lock(run_folder):
        # 1. The model.
        found = load_analyzed_model(run_folder, arguments.checkpoint)

        # 2. The texts.
        texts = _read_texts(run_folder, found, arguments, console)
        console.say(f"{len(texts):,} texts of {texts.name}")
        context = AnalysisContext(
            config=found.config,
            model=found.model,
            tokenizer=found.tokenizer,
            texts=texts,
            console=console,
            seed=arguments.seed,
            run_folder=run_folder,
        )

        # 3. The parts.
        parts = []
        for name in names:
            parts.append(PARTS[name](context, arguments))
            console.say(f"{parts[-1].title}: {parts[-1].summary}")
            for note in parts[-1].notes:
                console.say(f"  {note}")

        # 4. The files.
        folder = run_folder / FOLDER
        facts = {
            "run": found.config.name,
            "checkpoint": arguments.checkpoint,
            "texts": f"{len(texts):,} of {texts.name}",
            FINGERPRINT: found.fingerprint,
        }
        kept = write_analysis(folder, parts, facts, f"Analysis of {found.config.name}")
    console.result(f"{len(parts)} parts; the page is {folder / REPORT}")
    return {
        "path": str(folder),
        "report": str(folder / REPORT),
        "parts": {part.name: part.summary for part in parts},
        "kept": kept,
    }


def choose_parts(names: Sequence[str]) -> list[str]:
    """Returns the parts to make, in the order of `PARTS`; all if none is named.

    Raises:
        ConfigError: There is no such part.
    """
    for name in names:
        if name not in PARTS:
            raise ConfigError(
                f"--part={name}: there is no such part.{did_you_mean(name, PARTS)} "
                f"Parts: {', '.join(PARTS)}"
            )
    return [name for name in PARTS if not names or name in names]


def _read_texts(
    run_folder: Path,
    found: AnalyzedModel,
    arguments: AnalyzeArguments,
    console: Console,
) -> AnalyzedTexts:
    if arguments.texts is not None:
        texts, truncated = read_text_file(
            arguments.texts, found.config.model, found.tokenizer, arguments.max_texts
        )
        if truncated:
            console.warn(
                f"{arguments.texts}: {truncated:,} texts are longer than the model's "
                f"{found.config.model.max_sequence_length} tokens; the rest of them is "
                "not analyzed"
            )
        return texts
    if not (run_folder / "data/manifest.json").is_file():
        raise DataError(
            f"{run_folder}: has no records to analyze the model on. Give a file of "
            "texts, one per line: --texts FILE; or make records: `transbeam data`"
        )
    manifest = read_manifest(run_folder / "data")
    manifest.check_files()
    return read_records(manifest, arguments.split, arguments.max_texts)
