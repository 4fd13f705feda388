"""The studio's page and JSON API, below `/studio`, for `transbeam.serving.studio`."""
