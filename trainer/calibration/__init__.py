"""Calibration of probabilities: temperature, thresholds, reliability."""
