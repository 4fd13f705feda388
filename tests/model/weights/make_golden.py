"""Makes `golden.npz`: what transformers answers on the checkpoints of `hugging_face`.

    python -m tests.model.weights.make_golden

needs torch and transformers, which Transbeam does not; its tests read the file.
Made with transformers 5.23.0 and torch 2.15.0 on a CPU; heads of decoders with 5.24.0.
"""

import tempfile
from pathlib import Path

import numpy as np

from tests.model.weights.hugging_face_checkpoints import CASES
from tests.model.weights.inputs import image, source_ids, source_mask, target_ids

GOLDEN = Path(__file__).with_name("golden.npz")


def main() -> None:
    import torch
    import transformers

    answers = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            case.write(Path(folder))
            (architecture,) = case.config["architectures"]
            kind = getattr(transformers, architecture)
            model, told = kind.from_pretrained(folder, output_loading_info=True)
        assert not told["missing_keys"], told
        assert not told["unexpected_keys"], told
        with torch.no_grad():
            given = model.eval()(**inputs(case.config["model_type"], torch))
        for output in (
            "last_hidden_state",
            "pooler_output",
            "encoder_last_hidden_state",
            "logits",
            "prediction_logits",
            "seq_relationship_logits",
            "start_logits",
            "end_logits",
        ):
            value = getattr(given, output, None)
            if value is not None:
                answers[f"{name}/{output}"] = value.numpy()
    np.savez_compressed(GOLDEN, **answers)


def inputs(model_type: str, torch) -> dict:
    """The inputs of the tests under transformers' names."""
    if model_type == "vit":
        pixels = image().transpose(0, 3, 1, 2).astype("float32") / 127.5 - 1
        return {"pixel_values": torch.tensor(pixels)}
    given = {
        "input_ids": torch.tensor(source_ids(model_type), dtype=torch.long),
        "attention_mask": torch.tensor(source_mask(), dtype=torch.long),
    }
    if model_type == "bert":
        given["token_type_ids"] = (given["input_ids"] % 2) * given["attention_mask"]
    if model_type == "t5":
        given["decoder_input_ids"] = torch.tensor(target_ids(), dtype=torch.long)
    return given


if __name__ == "__main__":
    main()
