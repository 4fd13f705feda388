"""Bearer tokens and the rights that each one grants."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from grpc import StatusCode

from transbeam.serving.server.base.status import StatusError


class Right(StrEnum):
    """A right that a token can grant."""

    PREDICT = "predict"
    METRICS = "metrics"
    RELOAD = "reload"


@dataclass(frozen=True)
class AccessTokens:
    """The accepted tokens and their rights.

    Attributes:
        rights: Rights of each token. If there are no tokens, requests need no token and
            everything is allowed.

    Example:
    >>> tokens = AccessTokens({"secret": frozenset({Right.PREDICT})})
    >>> tokens.check("Bearer secret", Right.PREDICT)
    >>> tokens.check("Bearer secret", Right.RELOAD)
    Traceback (most recent call last):
    StatusError: PERMISSION_DENIED: this token is not for reload
    """

    rights: Mapping[str, frozenset[Right]] = field(default_factory=dict, repr=False)

    def check(self, authorization: str | None, right: Right | None = None) -> None:
        """Rejects a request whose token is missing, unknown or lacks a right.

        Args:
            authorization: The Authorization header, `Bearer TOKEN`.
            right: The required right; if None, any known token is accepted.

        Raises:
            StatusError: UNAUTHENTICATED if the token is missing or unknown;
                PERMISSION_DENIED if it lacks the required right.
        """
        if not self.rights:
            return
        scheme, _, shown = (authorization or "").partition(" ")
        given = shown.strip().encode() if scheme.lower() == "bearer" else b""
        # Compares with all tokens in constant time, against timing attacks.
        found = [
            rights
            for token, rights in self.rights.items()
            if hmac.compare_digest(given, token.encode())
        ]
        if not found:
            raise StatusError(
                StatusCode.UNAUTHENTICATED,
                "this server requires a token: send the header Authorization: Bearer "
                "TOKEN",
            )
        if right is not None and right not in found[0]:
            raise StatusError(
                StatusCode.PERMISSION_DENIED, f"this token is not for {right}"
            )
