"""Byte-level BPE as in GPT-2 and RoBERTa, in TensorFlow."""
