"""Quantization of TFLite files: calibration, GPTQ, 4-bit weights."""
