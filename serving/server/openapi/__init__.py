"""The OpenAPI document of the served models."""
