"""Reports size, latency and metric loss per TFLite variant, as tables and a plot."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.export.atomic_publish import median_ms
from transbeam.serving.parity.base.parity_checks import ParityCheck
from transbeam.serving.phone.tflite_format.signature_table import table

REPORT, PICTURE = "phone_report.md", "phone_report.png"

# Measured numbers of threads, and text lengths in tokens.
THREADS = (1, 2)
LENGTHS = (32, 128)

Latencies = Mapping[int, Mapping[int, float]]  # ms by threads and tokens


def measure_latencies(file: Path, signature: str, max_length: int) -> Latencies:
    """Measures the latency of a signature call, in milliseconds.

    Args:
        file: The TFLite file.
        signature: The signature to call.
        max_length: The maximum number of tokens; 1 for inputs of fixed size.
    """
    lengths = sorted({min(length, max_length) for length in LENGTHS})
    found: dict[int, dict[int, float]] = {}
    for threads in THREADS:
        model = TFLiteRunner(file, num_threads=threads)
        inputs = {length: model.ones(signature, length) for length in lengths}
        found[threads] = {
            length: median_ms(partial(model.run, signature, **ones))
            for length, ones in inputs.items()
        }
    return found


@dataclass(frozen=True)
class Measured:
    """Measurements of a variant.

    Attributes:
        size: Bytes.
        milliseconds: Duration of a call by number of threads, then by number of tokens.
        score: The value of the task metric; None if the records have no targets.
    """

    size: int
    milliseconds: Latencies
    score: float | None


@dataclass(frozen=True)
class Report:
    """Measurements of all variants.

    Attributes:
        name: Of the run.
        unit: The unit of lengths, such as `tokens`.
        variants: By name.
        metric: Name of the task metric, such as `accuracy`.
        of_keras: The Keras model's score.
        rows: All parity checks.
    """

    name: str
    unit: str
    variants: Mapping[str, Measured]
    metric: str | None
    of_keras: float | None
    rows: Sequence[ParityCheck]

    def write(self, folder: Path) -> None:
        """Writes `phone_report.md` and `phone_report.png`."""
        write_atomically(folder / REPORT, self.as_markdown())
        self._draw(folder / PICTURE)

    def scores(self) -> dict[str, dict[str, float]]:
        """Returns the scores of Keras and of each variant, by the metric's name."""
        if self.metric is None or self.of_keras is None:
            return {}
        found = {
            name: of.score for name, of in self.variants.items() if of.score is not None
        }
        return {self.metric: {"keras": self.of_keras, **found}}

    def summary(self) -> str:
        """Returns a one-line summary."""
        parts = []
        for name, of in self.variants.items():
            threads = max(of.milliseconds)
            length, time = max(of.milliseconds[threads].items())
            described = (
                f"{name} {of.size / 1e6:.1f} MB, {time:.1f} ms for {length} {self.unit}"
            )
            if self.loss_of(name) is not None:
                described += (
                    f", {self.metric} {of.score:.4f} ({self._format_loss(name)})"
                )
            parts.append(described)
        count = f"all {len(self.rows)} comparisons with Keras passed"
        return "; ".join([*parts, count])

    def as_markdown(self) -> str:
        """Returns the report as Markdown: measurements, then all parity checks."""
        versions = ", ".join(
            f"{name} {version(name)}" for name in ("ai-edge-litert", "tensorflow")
        )
        return "\n".join(
            [
                f"# {self.name} on phones: what each file costs and loses",
                "",
                f"![Size, time and loss of each variant]({PICTURE})",
                "",
                self._summary(),
                "",
                "Times are medians of 40 calls, in milliseconds, of this machine: "
                f"{platform.machine()}, {platform.system()}, {versions}; a phone has "
                "others. Size and loss are the same everywhere.",
                "",
                "## Compared with Keras",
                "",
                table(
                    ("form", "comparison", "found", "allowed"),
                    [
                        (r.form, r.check, f"{r.value:.3g}", f"{r.limit:.3g}")
                        for r in self.rows
                    ],
                ),
                "",
            ]
        )

    def _summary(self) -> str:
        first = next(iter(self.variants.values()))
        timed = [
            (threads, length)
            for threads, times in first.milliseconds.items()
            for length in times
        ]
        heads = ["variant", "MB", "of float32"]
        heads += [f"{n} {self.unit}, {_threads(t)}" for t, n in timed]
        if self.metric:
            heads += [f"{self.metric} (Keras {self.of_keras:.4f})", "lost"]
        full = self.variants.get("float32")
        cells = []
        for name, of in self.variants.items():
            share = f"{of.size / full.size:.2f}x" if full else "–"
            row = [f"`{name}`", f"{of.size / 1e6:.1f}", share]
            row += [f"{of.milliseconds[t][n]:.2f}" for t, n in timed]
            if self.metric:
                row += [_shown(of.score), self._format_loss(name)]
            cells.append(row)
        return table(heads, cells)

    def loss_of(self, variant: str) -> float | None:
        """Returns the metric loss: a difference, or a relative perplexity increase."""
        score = self.variants[variant].score
        if score is None or self.of_keras is None:
            return None
        if self.metric == "perplexity":
            return score / self.of_keras - 1
        return self.of_keras - score

    def _format_loss(self, variant: str) -> str:
        """Formats the metric loss: in percentage points, or as a relative increase."""
        loss = self.loss_of(variant)
        if loss is None:
            return "–"
        if self.metric == "perplexity":
            return f"{100 * loss:+.2f}%"
        return f"{100 * loss:.2f} points"

    def _draw(self, file: Path) -> None:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot

        names = list(self.variants)
        first = next(iter(self.variants.values()))
        threads = max(first.milliseconds)
        longest = max(first.milliseconds[threads])
        times = [of.milliseconds[threads][longest] for of in self.variants.values()]
        sizes = [of.size / 1e6 for of in self.variants.values()]
        panels = [
            ("megabytes", sizes, "#4477aa"),
            (
                f"ms for {longest} {self.unit}, {_threads(threads)}",
                times,
                "#228833",
            ),
        ]
        if self.metric:
            losses = [100 * (self.loss_of(name) or 0.0) for name in names]
            unit = "% higher" if self.metric == "perplexity" else "points lost"
            panels.append((f"{self.metric}, {unit}", losses, "#ee6677"))
        figure, axes = pyplot.subplots(
            1, len(panels), figsize=(4 * len(panels), 1.2 + 0.4 * len(names))
        )
        for axis, (title, values, color) in zip(axes, panels, strict=True):
            bars = axis.barh(names, values, color=color)
            axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=3)
            axis.invert_yaxis()
            axis.margins(x=0.2)
            axis.set_title(title, fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
            if axis is not axes[0]:
                axis.set_yticklabels([])
        figure.suptitle(self.name)
        figure.tight_layout()
        figure.savefig(file, dpi=120)
        pyplot.close(figure)


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _shown(number: float | None) -> str:
    return "–" if number is None else f"{number:.4f}"
