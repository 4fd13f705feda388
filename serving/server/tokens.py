"""The secret that clients show, if the server asks for one."""

import hmac

from grpc import StatusCode

from serving.server.failures import Failure


def check_token(wanted: str | None, authorization: str | None) -> None:
    """Refuses who does not show the token.

    Args:
        wanted: The token; everybody is let in without one.
        authorization: The header, `Bearer TOKEN`.

    Raises:
        Failure: It is missing or another.

    Example:
    >>> check_token("secret", "Bearer secret")
    """
    if wanted is None:
        return
    scheme, _, shown = (authorization or "").partition(" ")
    # Takes as long for a token that is nearly right.
    same = hmac.compare_digest(shown.strip().encode(), wanted.encode())
    if scheme.lower() != "bearer" or not same:
        raise Failure(
            StatusCode.UNAUTHENTICATED,
            "this server asks for a token: send the header Authorization: Bearer TOKEN",
        )
