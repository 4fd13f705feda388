"""KerasHub's backbones and presets."""
