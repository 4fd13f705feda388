"""Ablation and activation patching."""
