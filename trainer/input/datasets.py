"""Data sets of a training: the records of its own run and of other runs."""

from pathlib import Path

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.training import DatasetConfig
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.stage import data_inputs, data_stage
from transbeam.trainer.input.batches import check_contract

# Sections whose keys must have the same values for all records of a training.
_SAME = ("objective.", "model.")


def data_sets(config: RunConfig, own: Manifest) -> list[tuple[Manifest, float]]:
    """Lists all data sets to train on, with their relative weights.

    Only manifests are read; whether the record files are complete is not checked.

    Args:
        config: The run.
        own: The run's own records, whose weight is 1.

    Raises:
        ArtifactError: A run of `training.datasets` has no records, or its records
            differ from this run's in tokenizer, objective or features.
    """
    sets = [(own, 1.0)]
    for number, dataset in enumerate(config.training.datasets):
        where = f"training.datasets[{number}].run={dataset.run}"
        folder = Path(dataset.run) / "data"
        if folder.resolve() == own.folder.resolve():
            raise ArtifactError(
                f"{where}: is this run itself, whose records are read anyway, with "
                "weight 1. Remove it"
            )
        try:
            manifest = read_manifest(folder)
            _check_dataset(manifest, own, config)
        except ArtifactError as error:
            raise ArtifactError(f"{where}: {error}") from error
        sets.append((manifest, dataset.weight))
    return sets


def sha256_of_records(dataset: DatasetConfig) -> str | None:
    """The fingerprint of another run's records; None if that run has no records."""
    stage = data_stage(Path(dataset.run))
    if not (stage.path / "stage.json").is_file():
        return None
    return stage.load()["result"]["records_sha256"]


def _check_dataset(manifest: Manifest, own: Manifest, config: RunConfig) -> None:
    """Checks that a data set's ids and labels mean the same as in the run's records."""
    there, here = (m.vocabulary["fingerprint"] for m in (manifest, own))
    if there != here:
        raise ArtifactError(
            f"reads with another tokenizer: fingerprint {there[:12]}… there, "
            f"{here[:12]}… in {own.folder}. Make the records of one with the other's: "
            f"`tokenizer: {{kind: pretrained, path: {own.folder / 'tokenizer'}}}`"
        )
    # With the keys of `model` that the special tokens depend on.
    old, new = (
        {key: x for key, x in data_inputs(run).items() if key.startswith(_SAME)}
        for run in (load_run(manifest.folder / "run.yaml"), config)
    )
    wrong = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if wrong:
        listed = ", ".join(
            f"{key}: {old.get(key, 'nothing')} there, {new.get(key, 'nothing')} here"
            for key in wrong
        )
        raise ArtifactError(f"was made for another objective ({listed})")
    check_contract(manifest, own.features)
