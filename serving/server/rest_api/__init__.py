"""TF Serving's REST API."""
