"""Low-rank adaptation (LoRA) of a frozen model."""

import json
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

import keras
from keras import ops
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.model.adaptation.freezing import (
    ParameterCount,
    count_parameters,
    dense_layers,
    forget_training,
    freeze,
)
from transbeam.model.base.initializers import derive_seed
from transbeam.model.base.weight_paths import matching

# The paper's choice of two of the four projections (table 5).
QUERY_AND_VALUE = ("*/query", "*/value")
FORMAT = "transbeam-adapters"


def enable_lora(
    model: keras.Model,
    rank: int,
    alpha: float | None = None,
    *,
    targets: Sequence[str] = QUERY_AND_VALUE,
    seed: int | None = 0,
) -> ParameterCount:
    """Freezes a model and adds adapters to some of its dense layers.

    A layer's kernel `W` becomes `W + alpha / rank * A B`, with `A` `(in, rank)`
    initialized at random and `B` `(rank, out)` with zeros: outputs are unchanged until
    the model is trained. The kernels may be quantized
    (`transbeam.model.adaptation.quantization`): the adapters are float32.

    Compile afterwards. Only adapters are trainable; make a new head trainable by
    `unfreeze(model, ["classifier/*"])`.

    Args:
        model: A built model.
        rank: Rank of the adapters: the number of rows of `B`.
        alpha: Scale of the adapters; None for `rank`.
        targets: Patterns of the paths of dense layers, such as `"*/self_attention/*"`.
        seed: Seed of `A`.

    Returns:
        Counts of trainable and frozen parameters after the change.

    Raises:
        ConfigError: A pattern matches no dense layer, a layer has an adapter already,
            or the rank is not an integer between 1 and the smaller dimension of a
            kernel.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> enable_lora(encoder, rank=2).trainable
    64

    References:
        - [Hu et al., 2021](https://arxiv.org/abs/2106.09685), equation 3
        - [Dettmers et al., 2023](https://arxiv.org/abs/2305.14314) (quantized kernels)
    """
    if not isinstance(rank, Integral):
        raise ConfigError(f"rank={rank!r} is not a whole number, such as 8")
    layers = dense_layers(model)
    chosen = [layers[path] for path in matching(layers, targets, "dense layer")]
    for layer in chosen:
        _check(layer, rank)
    freeze(model, ["*"])
    for layer in chosen:
        a_seed = derive_seed(seed, layer.path, "lora_kernel_a")
        layer.enable_lora(
            int(rank),
            lora_alpha=rank if alpha is None else alpha,
            a_initializer=keras.initializers.HeUniform(seed=a_seed),
        )
    forget_training(model)
    return count_parameters(model)


def adapted_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """The dense layers that have an adapter, by path."""
    return {p: layer for p, layer in dense_layers(model).items() if layer.lora_enabled}


def merge_lora(model: keras.Model) -> None:
    """Merges the adapters into their kernels, and removes them.

    Outputs are unchanged; weights and speed are those of a model without adapters. The
    kernels stay frozen: call `unfreeze(model, ["*"])` to train further.

    Args:
        model: A model with adapters.

    Raises:
        ConfigError: The model has no adapters, or a kernel is quantized: rounding the
            sum would lose most of a small adapter.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> _ = enable_lora(encoder, rank=2)
    >>> merge_lora(encoder)
    >>> adapted_layers(encoder)
    {}

    References:
        - [Hu et al., 2021](https://arxiv.org/abs/2106.09685), section 4.1
    """
    layers = _adapted(model)
    for path, layer in layers.items():
        if layer.quantization_mode is not None:
            raise ConfigError(
                f"{path}: its kernel is {layer.quantization_mode}, and the sum with "
                "its adapter would be rounded to that. Keep the adapters in their own "
                "file (save_adapters), or load that file onto the float model and "
                "merge there"
            )
    for layer in layers.values():
        scale = layer.lora_alpha / layer.lora_rank
        delta = scale * ops.matmul(layer.lora_kernel_a, layer.lora_kernel_b)
        layer.lora_enabled = False  # from here on, `kernel` is the plain weight
        layer.lora_rank = layer.lora_alpha = None
        layer.kernel.assign(ops.add(layer.kernel, delta))
        del layer.lora_kernel_a, layer.lora_kernel_b
    forget_training(model)


def save_adapters(model: keras.Model, path: str | Path) -> None:
    """Saves only the adapters: a small file, to be used with the base model.

    Keras merges adapters into the kernels that it saves, and rounds the sums of
    quantized kernels; this function saves the adapters unmerged.

    Args:
        model: A model with adapters.
        path: Path of the safetensors file to write; an existing file is replaced.

    Raises:
        ConfigError: The model has no adapters.
        ArtifactError: The folder does not exist, or the file cannot be written.

    Example:
    >>> import tempfile
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> config = EncoderConfig(num_layers=1, hidden_dim=8)
    >>> encoder = build_encoder(config, 10)
    >>> _ = enable_lora(encoder, rank=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_adapters(encoder, Path(folder, "adapters.safetensors"))
    ...     fresh = build_encoder(config, 10)
    ...     load_adapters(fresh, Path(folder, "adapters.safetensors")).trainable
    64
    """
    layers = _adapted(model)
    path = Path(path)
    if not path.parent.is_dir():
        raise ArtifactError(f"{path}: no folder {path.parent}; make it first")
    tensors = {}
    for name, layer in layers.items():
        tensors[f"{name}/a"] = ops.convert_to_numpy(layer.lora_kernel_a)
        tensors[f"{name}/b"] = ops.convert_to_numpy(layer.lora_kernel_b)
    alphas = {name: layer.lora_alpha for name, layer in layers.items()}
    about = {"format": FORMAT, "alpha": json.dumps(alphas)}
    write_atomically(path, save(tensors, about))


def load_adapters(model: keras.Model, path: str | Path) -> ParameterCount:
    """Loads saved adapters into a base model.

    Args:
        model: The model for which the adapters were trained, without adapters; it may
            be quantized.
        path: A file written by `save_adapters`.

    Returns:
        Counts of trainable and frozen parameters; only the adapters are trainable.

    Raises:
        ConfigError: The model has adapters already.
        ArtifactError: The file is missing, damaged or not a file of adapters, or its
            adapters do not fit the model's layers.
    """
    if there := adapted_layers(model):
        raise ConfigError(
            f"the model has adapters already ({', '.join(there)}); merge them, or "
            "build the model afresh"
        )
    tensors, alphas = _read(Path(path))
    layers = dense_layers(model)
    for name in alphas:
        a, b = tensors[f"{name}/a"], tensors[f"{name}/b"]
        if name not in layers:
            raise ArtifactError(f"{path}: has an adapter for {name}, not in this model")
        found, expected = (a.shape[0], b.shape[1]), tuple(layers[name].kernel.shape)
        if found != expected:
            raise ArtifactError(
                f"{path}: the adapter of {name} is for a kernel of shape {found}; it "
                f"is {expected} here. Load it onto the model it was trained on"
            )
    freeze(model, ["*"])
    for name, alpha in alphas.items():
        a, b = tensors[f"{name}/a"], tensors[f"{name}/b"]
        layers[name].enable_lora(a.shape[1], lora_alpha=alpha)
        layers[name].lora_kernel_a.assign(a)
        layers[name].lora_kernel_b.assign(b)
    forget_training(model)
    return count_parameters(model)


def _check(layer: keras.layers.Dense, rank: int) -> None:
    if layer.lora_enabled:
        raise ConfigError(
            f"{layer.path} has an adapter of rank {layer.lora_rank} already; merge it, "
            "or build the model afresh"
        )
    sides = tuple(layer.kernel.shape)
    if not 1 <= rank <= min(sides):
        raise ConfigError(
            f"{layer.path}: rank={rank} is not between 1 and {min(sides)}, the smaller "
            f"side of its kernel {sides}"
        )


def _adapted(model: keras.Model) -> dict[str, keras.layers.Dense]:
    layers = adapted_layers(model)
    if not layers:
        raise ConfigError("the model has no adapters: call enable_lora first")
    return layers


def _read(path: Path) -> tuple[dict, dict[str, float]]:
    try:
        with safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ArtifactError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise ArtifactError(
            f"{path}: no whole safetensors file ({error}): cut off or damaged"
        ) from error
    if about.get("format") != FORMAT:
        raise ArtifactError(
            f"{path}: is no file of adapters that save_adapters wrote "
            f"(format {about.get('format')!r}, expected {FORMAT!r})"
        )
    return tensors, json.loads(about["alpha"])
