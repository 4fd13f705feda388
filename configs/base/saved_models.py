"""Finds a SavedModel in a folder, without importing TensorFlow."""

from pathlib import Path

from transbeam.configs.base.errors import ArtifactError


def find_version(model: Path) -> Path:
    """The version folder to load: the given folder, or its highest-numbered subfolder.

    Raises:
        ArtifactError: Neither the given folder nor a version folder in it contains a
            SavedModel.
    """
    if (model / "saved_model.pb").is_file():
        return model
    versions = [
        folder
        for folder in (model.iterdir() if model.is_dir() else ())
        if folder.name.isdecimal() and (folder / "saved_model.pb").is_file()
    ]
    if not versions:
        found = "holds no SavedModel" if model.is_dir() else "there is no such folder"
        raise ArtifactError(
            f"{model}: {found}. Give the folder of a model exported by `transbeam "
            "export`, or any with saved_model.pb in it or in a version below, with "
            "--model"
        )
    return max(versions, key=lambda folder: int(folder.name))
