"""BERT-base as a classifier: a Hugging Face checkpoint as our SavedModel.

    python -m bench.bert_classifier VERSION_FOLDER

asks one, as servers hold it, in a process of its own: for every line it reads, a number
of calls and a length, it classifies a row of that many tokens so often and writes the
median of the seconds.
"""

import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow", "tensorflow_text", "keras")

import numpy as np  # noqa: E402

from transbeam.configs.loader.yaml_config import load_run  # noqa: E402
from transbeam.configs.schema.tokenizer import PretrainedConfig  # noqa: E402
from transbeam.model.build import build_model  # noqa: E402
from transbeam.model.weights.assign import assign, variable_shapes  # noqa: E402
from transbeam.model.weights.checkpoint_import import read_checkpoint  # noqa: E402
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer  # noqa: E402
from transbeam.pipeline.tokenizers.training.train_tokenizer import make_tokenizer  # noqa: E402
from transbeam.serving.base.trained_run import TrainedRun  # noqa: E402
from transbeam.serving.export.export_dtype import in_dtype  # noqa: E402
from transbeam.serving.export.saved_model_writer import write_saved_model  # noqa: E402
from transbeam.serving.export.stored_requests import write_warm_up  # noqa: E402
from transbeam.serving.server.inference.servable import Servable  # noqa: E402
from transbeam.serving.signatures.task_factory import make_signature_task  # noqa: E402

VOCABULARY = 30522


def write_versions(checkpoint: Path, vocabulary: Path, folder: Path) -> dict[str, Path]:
    """Writes a SavedModel in float32 and one in bfloat16.

    Args:
        checkpoint: Hugging Face's folder.
        vocabulary: BERT's `vocab.txt`.
        folder: Where to.

    Returns:
        The version folders by dtype.
    """
    found = read_checkpoint(checkpoint)
    objective = found.objective
    assert objective is not None
    make_tokenizer(folder / "tokenizer", {}, PretrainedConfig(path=str(vocabulary)))
    tokenizer = load_tokenizer(folder / "tokenizer")
    model = build_model(
        found.config, objective, VOCABULARY, segments=False, dtype="float32"
    )
    assign(model, found.weights(variable_shapes(model)))
    run = load_run(Path("configs/presets/bert_base.yaml"))
    made = {}
    for dtype in ("float32", "bfloat16"):
        export = replace(run.export, dtype=dtype)
        config = replace(run, objective=objective, model=found.config, export=export)
        trained = in_dtype(TrainedRun(config, tokenizer, model))
        made[dtype] = folder / dtype / "1"
        write_saved_model(trained, made[dtype])
        write_warm_up(made[dtype], make_signature_task(trained))
    return made


def main() -> None:
    """Answers until the input ends."""
    servable = Servable(Path(sys.argv[1]))
    signature = servable.signatures["classify_ids"]
    outputs = sorted(signature.definition.outputs)
    for line in sys.stdin:
        calls, length = map(int, line.split())
        ids = np.random.default_rng(0).integers(1000, VOCABULARY, (1, length))
        inputs = {"token_ids": ids.astype(np.int32)}
        inputs["padding_mask"] = np.ones_like(inputs["token_ids"])
        taken = []
        for _ in range(calls):
            began = time.perf_counter()
            servable.run(signature, inputs, outputs, 60.0)
            taken.append(time.perf_counter() - began)
        print(statistics.median(taken), flush=True)


if __name__ == "__main__":
    main()
