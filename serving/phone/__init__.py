"""What apps on phones take beside a plain TFLite file."""
