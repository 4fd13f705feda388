"""Adaptation of trained models: freezing, LoRA, pruning and quantization."""
