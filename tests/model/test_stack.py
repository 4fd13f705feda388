"""What a stack makes of its config, block by block."""

from configs.model import EncoderConfig
from configs.sockets import DropPathResidual
from model.encoder import build_encoder


def drop_path_rates(num_layers: int) -> list[float]:
    config = EncoderConfig(
        num_layers=num_layers, hidden_dim=8, residual=DropPathResidual(rate=0.5)
    )
    encoder = build_encoder(config, 10)
    names = [f"encoder_layer_{index}" for index in range(num_layers)]
    return [encoder.get_layer(name).feedforward_residual.rate for name in names]


def test_the_last_block_drops_most_paths_and_the_only_one_too():
    assert drop_path_rates(3) == [0.0, 0.25, 0.5]
    assert drop_path_rates(1) == [0.5]
