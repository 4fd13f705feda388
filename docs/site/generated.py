"""The pages of the site that are made of code."""

from collections.abc import Callable

from docs.site import (
    command_reference,
    configuration_reference,
    decisions,
    http_reference,
    model_zoo,
)


def pages() -> dict[str, Callable[[], str]]:
    """The pages by their paths, each as a function that writes it."""
    return {
        **configuration_reference.pages(),
        command_reference.PATH: command_reference.page,
        http_reference.PATH: http_reference.page,
        decisions.PATH: decisions.page,
        model_zoo.PATH: model_zoo.page,
    }
