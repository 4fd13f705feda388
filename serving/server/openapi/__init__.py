"""The OpenAPI description of the served models."""
