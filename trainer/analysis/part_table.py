"""The parts of an analysis: how each is made, and the arguments that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.reflection import did_you_mean
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.analysis.analyze_arguments import AnalyzeArguments
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.base.analysis_part import AnalysisPart
from transbeam.trainer.analysis.circuits.circuits import analyze_circuits
from transbeam.trainer.analysis.flow.flow import analyze_flow
from transbeam.trainer.analysis.flow.pairs import analyze_pairs
from transbeam.trainer.analysis.heads.heads import analyze_heads
from transbeam.trainer.analysis.interventions.ablation import analyze_ablation
from transbeam.trainer.analysis.interventions.patching import analyze_patching
from transbeam.trainer.analysis.lenses.lens import analyze_lens
from transbeam.trainer.analysis.neurons.neurons import analyze_neurons
from transbeam.trainer.analysis.probes.probes import analyze_probes
from transbeam.trainer.analysis.syntax.roles import analyze_roles
from transbeam.trainer.analysis.syntax.syntax import analyze_syntax
from transbeam.trainer.analysis.vectors.vectors import analyze_vectors

MakePart = Callable[[AnalysisContext, AnalyzeArguments], AnalysisPart]


@dataclass(frozen=True)
class PartKind:
    """A kind of part.

    Attributes:
        make: Makes the part.
        needs: Names of the arguments without which it cannot be made.
        wants: Names of the arguments without which it is made only if named.
        needs_records: True if it reads the run's records and needs the trained head.
    """

    make: MakePart
    needs: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()
    needs_records: bool = False


def _heads(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_heads(
        context,
        sparsity_threshold=arguments.sparsity_threshold,
        distant_tokens=arguments.distant_tokens,
    )


def _roles(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_roles(context, arguments.treebank)


def _syntax(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    assert arguments.treebank is not None
    return analyze_syntax(context, arguments.treebank)


def _flow(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_flow(context)


def _probes(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_probes(
        context, treebank=arguments.treebank, entities=arguments.entities
    )


def _vectors(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_vectors(context, words=arguments.words)


def _neurons(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_neurons(context)


def _pairs(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_pairs(
        context, pairs_file=arguments.pairs, max_pairs=arguments.max_texts
    )


def _ablation(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    records = read_manifest(context.run_folder / "data")
    return analyze_ablation(context, records=records, kind=arguments.ablation)


def _circuits(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_circuits(context, text=arguments.text)


def _lens(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    return analyze_lens(context, tuned=arguments.tuned_lens, text=arguments.text)


def _patching(context: AnalysisContext, arguments: AnalyzeArguments) -> AnalysisPart:
    clean, corrupted, right, wrong = arguments.patch
    return analyze_patching(
        context, clean=clean, corrupted=corrupted, right=right, wrong=wrong
    )


PARTS: Mapping[str, PartKind] = {
    "heads": PartKind(_heads),
    "patching": PartKind(_patching, needs=("patch",)),
    "roles": PartKind(_roles),
    "syntax": PartKind(_syntax, needs=("treebank",)),
    "flow": PartKind(_flow),
    "pairs": PartKind(_pairs, wants=("pairs",)),
    "circuits": PartKind(_circuits),
    "vectors": PartKind(_vectors),
    "neurons": PartKind(_neurons),
    "probes": PartKind(_probes),
    "ablation": PartKind(_ablation, needs_records=True),
    "lens": PartKind(_lens),
}
_FORMS = {
    "patch": "--patch CLEAN CORRUPTED RIGHT WRONG",
    "treebank": "--treebank FILE",
}


def choose_parts(
    names: Sequence[str], given: Mapping[str, object], *, has_records: bool
) -> list[str]:
    """Returns the parts to make, in the order of `PARTS`.

    Args:
        names: The parts that the user named; none for all that can be made.
        given: The arguments of the command by name; empty ones are not given.
        has_records: True if the run has records, and weights with the head for them.

    Raises:
        ConfigError: There is no such part, or it cannot be made.
    """
    for name in names:
        if name not in PARTS:
            raise ConfigError(
                f"--part={name}: there is no such part.{did_you_mean(name, PARTS)} "
                f"Parts: {', '.join(PARTS)}"
            )
        missing = [need for need in PARTS[name].needs if not given[need]]
        if missing:
            raise ConfigError(f"--part={name}: needs {_FORMS[missing[0]]}")
        if PARTS[name].needs_records and not has_records:
            raise ConfigError(
                f"--part={name}: needs the records of a trained run, as it measures "
                "the loss; `transbeam data` and `transbeam train` make them"
            )
    if names:
        return [name for name in PARTS if name in names]
    return [
        name
        for name, kind in PARTS.items()
        if all(given[need] for need in (*kind.needs, *kind.wants))
        and (has_records or not kind.needs_records)
    ]
