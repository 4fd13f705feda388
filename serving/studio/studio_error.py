"""Errors that the page shows to its user."""


class StudioError(Exception):
    """A request that cannot be answered, with the reason for the user.

    Attributes:
        message: What was found, what was expected, and what to do.
        is_missing: Whether the requested run, inspection or layer does not exist;
            otherwise the request is invalid.
    """

    def __init__(self, message: str, *, is_missing: bool = False):
        super().__init__(message)
        self.message = message
        self.is_missing = is_missing
