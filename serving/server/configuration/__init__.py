"""The server's settings, and TF Serving's configuration files."""
