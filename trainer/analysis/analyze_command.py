"""`transbeam analyze`, step by step."""

from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import DataError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.model_files import find_model_files
from transbeam.configs.loader.run_folder import lock
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.analysis.analyze_arguments import AnalyzeArguments
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.base.analysis_files import (
    FINGERPRINT,
    FOLDER,
    REPORT,
    write_analysis,
)
from transbeam.trainer.analysis.base.analyzed_model import (
    AnalyzedModel,
    load_analyzed_model,
)
from transbeam.trainer.analysis.base.text_reading import read_records, read_text_file
from transbeam.trainer.analysis.part_table import PARTS, choose_parts
from transbeam.trainer.analysis.vectors.projector import write_projector


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
    find_model_files(run_folder)  # before the lock, which makes the folder
    with lock(run_folder):
        # 1. The model.
        found = load_analyzed_model(run_folder, arguments.checkpoint)

        names = choose_parts(
            arguments.parts,
            vars(arguments),
            has_records=found.has_head and _has_records(run_folder),
        )

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

        # 3. The parts, each written when it is made: an error in a later one, or a
        # Ctrl-C, leaves the earlier ones.
        folder = run_folder / FOLDER
        facts = {
            "run": found.config.name,
            "checkpoint": arguments.checkpoint,
            FINGERPRINT: found.fingerprint,
        }
        summaries, kept = {}, list[str]()
        for name in names:
            part = PARTS[name].make(context, arguments)
            there = write_analysis(
                folder, part, f"{len(texts):,} of {texts.name}", facts
            )
            kept = [other for other in there if other not in names]
            summaries[name] = part.summary
            console.say(f"{part.title}: {part.summary}")
            for note in part.notes:
                console.say(f"  {note}")
        if "vectors" in summaries:
            write_projector(folder / "projector", context)
    console.result(f"{len(summaries)} parts; the page is {folder / REPORT}")
    return {
        "path": str(folder),
        "report": str(folder / REPORT),
        "parts": summaries,
        "kept": kept,
    }


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
    if not _has_records(run_folder):
        raise DataError(
            f"{run_folder}: has no records to analyze the model on. Give a file of "
            "texts, one per line: --texts FILE; or make records: `transbeam data`"
        )
    manifest = read_manifest(run_folder / "data")
    manifest.check_files()
    return read_records(manifest, arguments.split, arguments.max_texts)


def _has_records(run_folder: Path) -> bool:
    return (run_folder / "data/manifest.json").is_file()
