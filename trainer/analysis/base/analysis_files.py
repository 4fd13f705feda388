"""Writes an analysis: JSON, Parquet, pictures and a page.

    analysis/analysis.json       the model, and a summary of each part
    analysis/heads.json          the numbers of a part
    analysis/heads_metrics.parquet, heads_entropy.svg, heads_entropy.png
    analysis/lens_tuned.safetensors
    analysis/report.html         all parts on one page, which needs no other file

Parts of an earlier analysis of the same weights are kept, so that an analysis can be
made part by part. The folder is written beside the earlier one and takes its place when
it is complete.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from markupsafe import Markup

from transbeam.configs.base.atomic_files import write_json, writing
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.pipeline.pages.html_templates import render
from transbeam.pipeline.pages.pictures import as_svg
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart

FOLDER, SUMMARY, REPORT = "analysis", "analysis.json", "report.html"
FINGERPRINT = "weights_fingerprint"
_TEMPLATE = Path(__file__).parent / "templates" / "analysis.html"
_DOTS_PER_INCH = 160
# Namespaces, which a page does not need and an SVG file does.
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" '
)


def write_analysis(
    folder: Path, part: AnalysisPart, texts: str, facts: Mapping[str, Any]
) -> list[str]:
    """Writes a part of an analysis beside those that are there.

    Args:
        folder: The folder of the analysis.
        part: The part.
        texts: Description of the texts that it was made of.
        facts: Properties of the model, as JSON values: `run`, its name, and
            `FINGERPRINT`.

    Returns:
        Names of the other parts that are there, of the same weights.

    Raises:
        ArtifactError: The files cannot be written.
    """
    fresh = folder.with_name(f".{folder.name}.tmp")
    with writing(folder):
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        earlier = _earlier_parts(folder, facts[FINGERPRINT])
        entries = {entry["name"]: entry for entry in earlier}
        kept = [name for name in entries if name != part.name]
        for name in kept:
            for file in entries[name]["files"]:
                shutil.copy2(folder / file, fresh / file)
        for path in folder.iterdir() if kept else ():
            if path.is_dir():  # TensorBoard's projector
                shutil.copytree(path, fresh / path.name)
        # In the order in which they were first made.
        entries[part.name] = _write_part(fresh, part) | {"texts": texts}
        write_json(fresh / SUMMARY, {**facts, "parts": list(entries.values())})
        (fresh / REPORT).write_text(render_report(fresh), "utf-8")
        _replace(folder, fresh)
    return kept


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Reads the summary of an analysis; None if there is none or it is damaged."""
    try:
        return json.loads((folder / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def render_report(folder: Path) -> str:
    """Renders the page of the analysis in a folder, with its figures in it.

    Args:
        folder: The folder, with everything but the page.
    """
    summary = json.loads((folder / SUMMARY).read_text("utf-8"))
    parts = summary.pop("parts")
    facts = {k.replace("_", " "): v for k, v in summary.items() if v is not None}
    return render(
        _TEMPLATE,
        title=f"Analysis of {summary['run']}",
        facts=facts,
        parts=[(part, _pictures(folder, part)) for part in parts],
    )


def _pictures(folder: Path, part: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    """Returns the caption and the picture of each figure."""
    return [
        (
            Path(file).stem.removeprefix(part["name"]).replace("_", " ").strip(),
            Markup((folder / file).read_text("utf-8")),
        )
        for file in part["files"]
        if file.endswith(".svg")
    ]


def _earlier_parts(folder: Path, weights: str) -> list[dict[str, Any]]:
    """Lists the parts of an earlier analysis of the same weights."""
    summary = read_summary(folder)
    if summary is None or summary.get(FINGERPRINT) != weights:
        return []
    return [
        entry
        for entry in summary["parts"]
        if all((folder / file).is_file() for file in entry["files"])
    ]


def _write_part(folder: Path, part: AnalysisPart) -> dict[str, Any]:
    """Writes the files of a part, and returns its entry in the summary."""
    files = [f"{part.name}.json"]
    write_json(folder / files[0], dict(part.numbers))
    for key, table in part.tables.items():
        files.append(f"{part.name}_{key}.parquet")
        pq.write_table(table, folder / files[-1])
    for key, figure in part.figures.items():
        stem = f"{part.name}_{key}"
        picture = str(as_svg(figure, f"{part.title}: {key.replace('_', ' ')}"))
        picture = _SVG + picture.removeprefix("<svg ")
        (folder / f"{stem}.svg").write_text(picture, "utf-8")
        figure.set_layout_engine("none")  # as it was laid out for the SVG
        figure.savefig(folder / f"{stem}.png", dpi=_DOTS_PER_INCH, facecolor="white")
        files += [f"{stem}.svg", f"{stem}.png"]
    for key, weights in part.weights.items():
        files.append(f"{part.name}_{key}.safetensors")
        save_weights_by_path(folder / files[-1], weights.items())
    return {
        "name": part.name,
        "title": part.title,
        "summary": part.summary,
        "notes": list(part.notes),
        "files": files,
    }


def _replace(folder: Path, fresh: Path) -> None:
    """Puts a finished folder in the place of an earlier one."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
