"""TF Serving's gRPC services, with health checking and reflection."""
