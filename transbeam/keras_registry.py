"""Registers the project's classes with Keras before their modules are imported.

`keras.saving.load_model` imports the module of a class only for Keras's own packages;
other classes must be registered, which happens when their modules are imported. So a
stand-in is registered for each name as soon as Keras and this package are imported, and
the stand-in imports the module when it is first used. The module then registers its own
class, which replaces the stand-in.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = "transbeam"
# The registered names of each module, below `transbeam`.
CLASSES: dict[str, tuple[str, ...]] = {
    "model.adaptation.head_pruning": ("SomeHeads",),
    "model.functional.input_validation": ("CheckedModel",),
    "model.layers.attention.block_sparse": ("BlockSparseAttention",),
    "model.layers.attention.cross": ("CrossAttention",),
    "model.layers.attention.full": ("MultiHeadAttention",),
    "model.layers.attention.global_window": ("GlobalWindowAttention",),
    "model.layers.attention.kernel_attention": ("KernelAttention",),
    "model.layers.attention.low_rank": ("LowRankAttention",),
    "model.layers.attention.probabilities": ("Probabilities",),
    "model.layers.attention.sliding_window": ("SlidingWindowAttention",),
    "model.layers.block": ("TransformerBlock",),
    "model.layers.dense": ("Dense",),
    "model.layers.dropout": ("Dropout",),
    "model.layers.embeddings": ("SegmentEmbedding", "TokenEmbedding"),
    "model.layers.feedforward": ("FeedForward", "GatedFeedForward"),
    "model.layers.lm_head": ("GatherTokens", "VocabularyBias", "VocabularyProjection"),
    "model.layers.norms": ("LayerNormalization", "RMSNormalization"),
    "model.layers.patches": ("ClassToken", "PatchEmbedding"),
    "model.layers.pooling": ("Pooling",),
    "model.layers.positions.alibi": ("LinearBias",),
    "model.layers.positions.learned": ("LearnedPositionEmbedding",),
    "model.layers.positions.relative_bias": ("RelativeBias", "RelativeBiasTable"),
    "model.layers.positions.rotary": ("RotaryEmbedding",),
    "model.layers.positions.sinusoidal": ("SinusoidalPositionEmbedding",),
    "model.layers.residual": (
        "DropPathResidual",
        "ReZeroResidual",
        "Residual",
        "ScaledResidual",
    ),
    "trainer.optimizers.adafactor": ("Adafactor",),
    "trainer.optimizers.schedules": ("Warmup", "WarmupDecay", "WarmupInverseSqrt"),
}
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "model.layers.activations": ("gelu", "gelu_tanh"),
}


class _AfterKeras:
    """An import finder that registers the stand-ins once Keras is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds only `keras`, with the other finders of `sys.meta_path`."""
        if name != "keras":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            _register_all()

        # A loader is made for one module, so this is no other's concern.
        spec.loader.exec_module = execute_and_register
        return spec


class _UnloadedClass:
    """Stand-in for a class in Keras's registry until its module is imported."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def from_config(self, config: dict[str, Any]) -> Any:
        return _load(self.module, self.name).from_config(config)


def register() -> None:
    """Registers all names with Keras: now if Keras is imported, else on its import."""
    if "keras" in sys.modules:
        _register_all()
    else:
        sys.meta_path.insert(0, _AfterKeras())


def _register_all() -> None:
    import keras

    registered = keras.saving.get_custom_objects()
    for module, names in CLASSES.items():
        for name in names:
            stand_in = _UnloadedClass(f"{PACKAGE}.{module}", name)
            registered.setdefault(f"{PACKAGE}>{name}", stand_in)
    for module, names in FUNCTIONS.items():
        for name in names:
            if f"{PACKAGE}>{name}" not in registered:
                _register_function(f"{PACKAGE}.{module}", name)


def _register_function(module: str, name: str) -> None:
    """Registers a stand-in for a function that a layer's config refers to by name."""
    import keras

    def unloaded(*args: Any, **kwargs: Any) -> Any:
        return _load(module, name)(*args, **kwargs)

    unloaded.__module__, unloaded.__name__ = module, name
    keras.saving.register_keras_serializable(PACKAGE)(unloaded)


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
