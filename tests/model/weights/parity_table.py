"""Prints how near our answers are to others'.

By `python -m tests.model.weights.parity_table`.
"""

import tempfile
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

if __name__ == "__main__":  # tests that are collected have quiet imports of their own
    quiet_import("tensorflow", "keras_hub")

import numpy as np
from safetensors.numpy import load_file

from tests.model.weights import test_keras_hub as hub
from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES
from tests.model.weights.test_golden import differences
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.checkpoint_export import export_checkpoint
from transbeam.model.weights.checkpoint_import import read_checkpoint
from transbeam.model.weights.keras_hub.backbones import read_backbone


def main() -> None:
    """One line for each checkpoint of the tests."""
    print("| checkpoint | direction | largest difference |\n|---|---|---|")
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = read_checkpoint(case.write(Path(folder, "theirs")))
            model = built(checkpoint)
            gap = max(differences(name, model).values())
            print(f"| {name} | from transformers | {gap:.1e} |")
            ours = Path(folder, "ours")
            export_checkpoint(variables_by_path(model), checkpoint.description, ours)
            written, wanted = load_file(ours / "model.safetensors"), case.tensors()
            equal = written.keys() == wanted.keys() and all(
                np.array_equal(written[key], wanted[key]) for key in wanted
            )
            print(f"| {name} | to transformers | {0 if equal else 'not equal'} |")
    for name, make in hub.BACKBONES.items():
        backbone = make()
        generator = np.random.default_rng(7)
        for weight in backbone.weights:
            weight.assign(weight.numpy() + generator.normal(0, 0.4, weight.shape))
        ours = hub.our_outputs(name, built(read_backbone(backbone)))
        gap = max(
            np.abs(hub.real(ours[output]) - hub.real(theirs)).max()
            for output, theirs in hub.their_outputs(name, backbone).items()
        )
        print(f"| {name} | from KerasHub | {gap:.1e} |")


if __name__ == "__main__":
    main()
