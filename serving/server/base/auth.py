"""The secrets that clients show, if the server asks for one, and what each may do."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError


class Right(StrEnum):
    """Something that a client may do."""

    PREDICT = "predict"
    METRICS = "metrics"
    RELOAD = "reload"


ALL = frozenset(Right)


@dataclass(frozen=True)
class AccessTokens:
    """Who may do what.

    Attributes:
        rights: Of each token. Without any, everybody may do everything.

    Example:
    >>> tokens = AccessTokens({"secret": frozenset({Right.PREDICT})})
    >>> tokens.check("Bearer secret", Right.PREDICT)
    >>> tokens.check("Bearer secret", Right.RELOAD)
    Traceback (most recent call last):
    StatusError: PERMISSION_DENIED: this token is not for reload
    """

    rights: Mapping[str, frozenset[Right]] = field(default_factory=dict, repr=False)

    @classmethod
    def one(cls, token: str) -> "AccessTokens":
        """One token, whose clients may do everything."""
        return cls({token: ALL})

    def check(self, authorization: str | None, right: Right | None = None) -> None:
        """Refuses a client that does not show a token for what it wants.

        Args:
            authorization: The header, `Bearer TOKEN`.
            right: What it wants; any token will do if left out.

        Raises:
            Failure: The token is missing or unknown, or is for other things.
        """
        if not self.rights:
            return
        scheme, _, shown = (authorization or "").partition(" ")
        given = shown.strip().encode() if scheme.lower() == "bearer" else b""
        # Takes as long for a token that is nearly right, and for each of them.
        found = [
            rights
            for token, rights in self.rights.items()
            if hmac.compare_digest(given, token.encode())
        ]
        if not found:
            raise StatusError(
                StatusCode.UNAUTHENTICATED,
                "this server asks for a token: send the header Authorization: Bearer "
                "TOKEN",
            )
        if right is not None and right not in found[0]:
            raise StatusError(
                StatusCode.PERMISSION_DENIED, f"this token is not for {right}"
            )
