"""KerasHub's backbones and presets, read in: the same answers, the same gradients."""

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.weights.conftest import built
from tests.model.weights.inputs import image, source_ids, source_mask, target_ids
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.block import LinearStretchConfig
from transbeam.model.weights.assign import variable_shapes, variables_by_path
from transbeam.model.weights.checkpoint_export import export_checkpoint
from transbeam.model.weights.checkpoint_import import read_checkpoint
from transbeam.model.weights.checkpoints.weight_mapping import link
from transbeam.model.weights.keras_hub.backbones import read_backbone

# KerasHub's T5 asks Keras for masks that its attention does not read.
T5_MASKS = pytest.mark.filterwarnings(
    "ignore:Layer '.*_attention' .of type T5MultiHeadAttention.:UserWarning"
)
pytestmark = [tensorflow_only, T5_MASKS]
M = keras_hub.models
SIZES = {"vocabulary_size": 11, "num_layers": 2, "hidden_dim": 8}
BERT_SIZES = {
    **SIZES,
    "num_heads": 2,
    "intermediate_dim": 12,
    "max_sequence_length": 10,
    "dropout": 0.0,
}
LLAMA_SIZES = {
    **SIZES,
    "num_query_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_dim": 12,
}
# Each of its blocks takes a second to build.
T5_SIZES = {**SIZES, "num_layers": 1, "num_heads": 2, "intermediate_dim": 12}
VIT_SIZES = {
    "image_shape": (6, 6, 3),
    "patch_size": 2,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 8,
    "mlp_dim": 12,
}
BACKBONES = {
    "bert": lambda: M.BertBackbone(**BERT_SIZES),
    "roberta": lambda: M.RobertaBackbone(**BERT_SIZES),
    "distilbert": lambda: M.DistilBertBackbone(**BERT_SIZES),
    "gpt2": lambda: M.GPT2Backbone(**BERT_SIZES),
    "llama": lambda: M.LlamaBackbone(**LLAMA_SIZES),
    "llama3_tied": lambda: M.Llama3Backbone(**LLAMA_SIZES, tie_word_embeddings=True),
    "t5": lambda: M.T5Backbone(**T5_SIZES, use_gated_activation=False),
    "t5_1_1": lambda: M.T5Backbone(
        **T5_SIZES,
        activation="gelu",
        key_value_dim=6,
        tie_embedding_weights=False,
    ),
    "vit": lambda: M.ViTBackbone(**VIT_SIZES),
}


def their_outputs(name: str, backbone: keras.Model) -> dict:
    """Their answers under the names of ours."""
    if name == "vit":
        outputs = backbone(image().astype("float32") / 127.5 - 1)
    elif name.startswith("t5"):
        outputs = backbone(
            {
                "encoder_token_ids": source_ids(name),
                "encoder_padding_mask": source_mask(),
                "decoder_token_ids": target_ids(),
                "decoder_padding_mask": np.ones_like(target_ids()),
            }
        )
        outputs["sequence_output"] = outputs.pop("decoder_sequence_output")
    else:
        given = {"token_ids": source_ids(name), "padding_mask": source_mask()}
        if name == "bert":
            given["segment_ids"] = source_ids(name) % 2
        outputs = backbone(given)
    return outputs if isinstance(outputs, dict) else {"sequence_output": outputs}


def our_outputs(name: str, model: keras.Model) -> dict:
    ids, mask = source_ids(name), source_mask()
    known = {
        "image": image(),
        "token_ids": ids,
        "segment_ids": ids % 2,
        "padding_mask": mask,
        "encoder_token_ids": ids,
        "encoder_padding_mask": mask,
        "decoder_token_ids": target_ids(),
        "decoder_padding_mask": np.ones_like(target_ids()),
    }
    return model({key: known[key] for key in model.input})


def real(output) -> np.ndarray:
    """The outputs of real tokens, without padding."""
    array = output.numpy()
    has_tokens = array.ndim == 3 and array.shape[1] == 6
    return array[source_mask().astype(bool)] if has_tokens else array


@pytest.fixture(params=BACKBONES)
def name(request) -> str:
    return request.param


@pytest.fixture
def backbone(name, randomise) -> keras.Model:
    return randomise(BACKBONES[name]())


def test_same_answers(name, backbone):
    checkpoint = read_backbone(backbone)
    assert checkpoint.family == name.partition("_")[0].removesuffix("3")
    ours = our_outputs(name, built(checkpoint))
    theirs = their_outputs(name, backbone)
    for output, value in theirs.items():
        np.testing.assert_allclose(
            real(ours[output]), real(value), rtol=0, atol=1e-5, err_msg=output
        )


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_same_gradients(name, backbone):
    checkpoint = read_backbone(backbone)
    model = built(checkpoint)
    worth = np.random.default_rng(1).normal(size=(2, 6, 8)).astype("float32") / 10
    worth *= source_mask()[..., None]

    def gradients(model, outputs) -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(outputs(name, model)["sequence_output"] * worth)
        found = tape.gradient(
            loss,
            [weight.value for weight in model.weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # the pooler
        )
        return [tf.convert_to_tensor(one).numpy() for one in found]

    theirs = dict(
        zip(
            (weight.path for weight in backbone.weights),
            gradients(backbone, their_outputs),
            strict=True,
        )
    )
    ours = dict(
        zip(variables_by_path(model), gradients(model, our_outputs), strict=True)
    )
    links = link(
        checkpoint.rows, variable_shapes(model), checkpoint.description.sizes, ""
    )
    assert len(links) == len(theirs)
    for one in links:
        gradient = one.to_theirs([ours[path] for path in one.ours])
        np.testing.assert_allclose(
            gradient, theirs[one.theirs], rtol=1e-5, atol=1e-5, err_msg=one.theirs
        )


@pytest.mark.parametrize(
    "name", others_thorough(["bert", "llama", "t5_1_1"], ["bert", "t5_1_1"])
)
def test_presets_in_a_folder(backbone, name, tmp_path):
    backbone.save_to_preset(str(tmp_path))
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.format == "keras_hub"
    direct = built(read_backbone(backbone))
    for path, weight in variables_by_path(built(checkpoint)).items():
        np.testing.assert_array_equal(
            weight.numpy(), variables_by_path(direct)[path].numpy()
        )


def test_a_damaged_preset_is_refused(tmp_path):
    M.BertBackbone(**BERT_SIZES).save_to_preset(str(tmp_path))
    file = tmp_path / "model.weights.h5"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(ArtifactError, match="KerasHub cannot load this preset"):
        read_checkpoint(tmp_path)


def test_a_preset_that_keras_hub_would_leave_in_part_random(tmp_path):
    """It does not write down that the scores are tied, and makes a table for them."""
    BACKBONES["llama3_tied"]().save_to_preset(str(tmp_path))
    with pytest.raises(ArtifactError, match="cannot load this preset: Skipping"):
        read_checkpoint(tmp_path)


def test_other_backbones_are_refused():
    albert = M.AlbertBackbone(
        **SIZES, num_heads=2, intermediate_dim=12, embedding_dim=8
    )
    with pytest.raises(
        ArtifactError, match="is a AlbertBackbone, expected one of Bert"
    ):
        read_backbone(albert)


def test_a_stretched_llama():
    """As KerasHub's documentation says; its 0.32 has the factor and does nothing."""
    backbone = M.LlamaBackbone(**LLAMA_SIZES, rope_position_scaling_factor=2.0)
    stretch = read_backbone(backbone).config.position.stretch
    assert stretch == LinearStretchConfig(factor=2.0)


def test_the_stretching_of_llama_3_1_is_refused():
    backbone = M.Llama3Backbone(
        **LLAMA_SIZES,
        rope_frequency_adjustment_factor=8.0,
        rope_low_freq_factor=1.0,
        rope_high_freq_factor=4.0,
        rope_pretraining_sequence_length=64,
    )
    with pytest.raises(ArtifactError, match="rope_frequency_adjustment_factor is 8"):
        read_backbone(backbone)


def test_read_from_keras_hub_and_written_for_transformers(tmp_path, randomise):
    """KerasHub then reads with its own converter what we have written."""
    # Its converter knows no other width in between than four times the outer.
    backbone = randomise(M.GPT2Backbone(**{**BERT_SIZES, "intermediate_dim": 32}))
    checkpoint = read_backbone(backbone)
    model = built(checkpoint)
    export_checkpoint(variables_by_path(model), checkpoint.description, tmp_path)
    again = M.GPT2Backbone.from_preset(str(tmp_path))
    np.testing.assert_allclose(
        their_outputs("gpt2", again)["sequence_output"],
        their_outputs("gpt2", backbone)["sequence_output"],
        rtol=0,
        atol=1e-6,
    )
