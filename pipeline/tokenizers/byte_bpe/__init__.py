"""Byte-level BPE as GPT-2 and RoBERTa have it, in TensorFlow."""
