"""Clients of a model server (REST, gRPC) and of a SavedModel on this machine."""
