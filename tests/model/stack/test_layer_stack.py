"""The blocks that a stack builds from its config."""

import pytest

from transbeam.configs.schema.block import (
    DropPathResidualConfig,
    NormalInitializerConfig,
    ScaledResidualConfig,
)
from transbeam.configs.schema.model import EncoderConfig, Seq2SeqModelConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq


def drop_path_rates(num_layers: int) -> list[float]:
    config = EncoderConfig(
        num_layers=num_layers, hidden_dim=8, residual=DropPathResidualConfig(rate=0.5)
    )
    encoder = build_encoder(config, 10)
    names = [f"encoder_layer_{index}" for index in range(num_layers)]
    return [encoder.get_layer(name).feedforward_residual.rate for name in names]


def test_the_last_block_drops_most_paths_and_the_only_one_too():
    assert drop_path_rates(3) == [0.0, 0.25, 0.5]
    assert drop_path_rates(1) == [0.5]


def test_updates_are_scaled_by_how_many_add_up():
    config = Seq2SeqModelConfig(
        num_layers=2,
        num_decoder_layers=3,
        hidden_dim=8,
        residual=ScaledResidualConfig(),
        initializer=NormalInitializerConfig(stddev=0.6, scale_residual=True),
    )
    model = build_seq2seq(config, 10)
    # Two sub-layers in a block of the encoder; cross-attention is a third.
    for name, updates in (("encoder_layer_0", 2 * 2), ("decoder_layer_0", 3 * 3)):
        block = model.get_layer(name)
        assert block.self_attention_residual.num_updates == updates
        stddev = block.feedforward.output_initializer.stddev
        assert stddev == pytest.approx(0.6 / updates**0.5)
        assert block.feedforward.kernel_initializer.stddev == 0.6
