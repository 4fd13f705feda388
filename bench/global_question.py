"""Global attention on a question's tokens: our encoder against transformers'.

    python -m bench.global_question --peer PYTHON

`PYTHON` is that of an environment with torch and transformers. A small random
Longformer reads questions of three lengths there; here an encoder with its weights
reads the same rows, with `global_tokens: first_segment`.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from transbeam.configs.system.quiet_imports import quiet_import

quiet_import("tensorflow")

import keras  # noqa: E402
import numpy as np  # noqa: E402

from bench.pairs import heading, row  # noqa: E402
from transbeam.configs.schema.attention import (  # noqa: E402
    GlobalWindowAttentionConfig,
)
from transbeam.configs.schema.block import (  # noqa: E402
    DenseFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
)
from transbeam.configs.schema.model import EncoderConfig  # noqa: E402
from transbeam.model.encoder import build_encoder  # noqa: E402
from transbeam.model.weights.assign import variables_by_path  # noqa: E402

PEER = Path(__file__).parent / "peers" / "hf_longformer.py"
LONGEST = 42  # the longest question with its special tokens
INPUTS = ("token_ids", "segment_ids", "padding_mask")
# What a part of our paths is called there; the first that is in a path counts.
NAMES = {
    "token_embedding/embeddings": "embeddings.word_embeddings.weight",
    "segment_embedding/embeddings": "embeddings.token_type_embeddings.weight",
    "position_embedding/embeddings": "embeddings.position_embeddings.weight",
    "embeddings_norm": "embeddings.LayerNorm",
    "self_attention_norm": "attention.output.LayerNorm",
    "feedforward_norm": "output.LayerNorm",
    "self_attention/global_query": "attention.self.query_global",
    "self_attention/global_key": "attention.self.key_global",
    "self_attention/global_value": "attention.self.value_global",
    "self_attention/output": "attention.output.dense",
    "self_attention/query": "attention.self.query",
    "self_attention/key": "attention.self.key",
    "self_attention/value": "attention.self.value",
    "feedforward/intermediate": "intermediate.dense",
    "feedforward/output": "output.dense",
}
ENDS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True, metavar="PYTHON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "theirs.npz")
        subprocess.run([arguments.peer, PEER, file], check=True)
        theirs = dict(np.load(file))
    model = encoder(theirs)
    ours = model({name: theirs[name].astype("int32") for name in INPUTS})
    real = theirs["padding_mask"] > 0
    found = keras.ops.convert_to_numpy(ours["sequence_output"])[real]
    expected = theirs["outputs"][real]
    print(heading("hidden states", "largest", "largest difference"))
    largest, differ = np.abs(expected).max(), np.abs(found - expected).max()
    print(row(f"{expected.size:,}", f"{largest:.2f}", f"{differ:.1e}"))


def encoder(theirs: dict[str, np.ndarray]) -> keras.Model:
    """The encoder with their weights."""
    model = build_encoder(
        EncoderConfig(
            num_layers=2,
            hidden_dim=32,
            max_sequence_length=theirs["token_ids"].shape[1],
            num_segments=1,
            position=LearnedPositionConfig(offset=2),
            attention=GlobalWindowAttentionConfig(
                num_heads=4,
                window_size=16,
                num_global_tokens=LONGEST,
                global_tokens="first_segment",
            ),
            norm=LayerNormConfig(placement="post", epsilon=1e-5),
            feedforward=DenseFeedForwardConfig(intermediate_dim=64, activation="gelu"),
        ),
        len(theirs["weight:embeddings.word_embeddings.weight"]),
    )
    for path, variable in variables_by_path(model).items():
        value = theirs[f"weight:{name_there(path)}"]
        variable.assign(value.T if path.endswith("kernel") else value)
    return model


def name_there(path: str) -> str:
    """The name of one of our weights in transformers."""
    part = next(part for part in NAMES if part in path)
    name, block = NAMES[part], path.partition("/")[0]
    if not path.endswith("embeddings"):
        name += f".{ENDS[path.rpartition('/')[2]]}"
    if block.startswith("encoder_layer_"):
        name = f"encoder.layer.{block.removeprefix('encoder_layer_')}.{name}"
    return name


if __name__ == "__main__":
    main()
