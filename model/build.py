"""From a config to a model: an encoder alone, or with the head of its objective."""

import keras

from configs.model import EncoderConfig
from model.encoder import build_encoder
from model.layers.activations import ACTIVATIONS
from model.layers.heads import GatherTokens, VocabularyBias
from model.seeds import derive_seed
from model.sockets import build_norm

__all__ = ["build_encoder", "build_masked_language_model"]


def build_masked_language_model(
    config: EncoderConfig,
    vocabulary_size: int,
    *,
    packed: bool = False,
    dtype: str | None = None,
    seed: int | None = 0,
) -> keras.Model:
    """Builds an encoder that guesses the tokens hidden from it.

    The head of BERT: one more dense layer and norm, then the token embedding read
    backwards and a bias for each token. Only the masked positions go through it.

    The head's layers stand beside the encoder's and not around an encoder, so a
    weight has the same path here as in `build_encoder`.

    Shapes: `B` batch, `P` masked positions, `V` vocabulary.

    Args:
        config: The `model` section of a run.
        vocabulary_size: `V`.
        packed: See `build_encoder`.
        dtype: See `build_encoder`.
        seed: See `build_encoder`.

    Returns:
        A functional model. Inputs: the encoder's and `masked_positions`, int32
        `(B, P)`. Output: `logits`, float32 `(B, P, V)` for every dtype policy.

    Example:
    >>> model = build_masked_language_model(
    ...     EncoderConfig(num_layers=1, hidden_dim=8), vocabulary_size=10
    ... )
    >>> sorted(model.input), model.output["logits"].shape
    (['masked_positions', 'padding_mask', 'token_ids'], (None, None, 10))

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.1
    """
    # === Layers ===
    encoder = build_encoder(
        config, vocabulary_size, packed=packed, dtype=dtype, seed=seed
    )
    token_embedding = encoder.get_layer("token_embedding")
    masked_tokens = GatherTokens(name="masked_tokens", dtype=dtype)
    head_dense = keras.layers.Dense(
        config.hidden_dim,
        activation=ACTIVATIONS[config.feedforward.activation],
        kernel_initializer=keras.initializers.TruncatedNormal(
            stddev=config.initializer_range, seed=derive_seed(seed, "head_dense")
        ),
        name="head_dense",
        dtype=dtype,
    )
    head_norm = build_norm(config, name="head_norm", dtype=dtype)
    head_bias = VocabularyBias(name="head_bias", dtype="float32")

    # === Functional Model ===
    masked_positions = keras.Input((None,), dtype="int32", name="masked_positions")
    x = masked_tokens(encoder.output["sequence_output"], masked_positions)
    x = head_norm(head_dense(x))
    logits = head_bias(token_embedding(x, reverse=True))

    return keras.Model(
        {**encoder.input, "masked_positions": masked_positions},
        {"logits": logits},
        name="masked_language_model",
    )
