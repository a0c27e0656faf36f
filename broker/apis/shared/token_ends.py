"""Shared code of the APIs that renew and expire delegation tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from broker.net.request import Request
from protocol.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    NONE,
)
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.authentication.tokens import Tokens
    from broker.net.connection import Connection
    from security.tokens import Token

_PLAINTEXT: Final = "PLAINTEXT"
_NOT_ALLOWED_MS = -1
_FAILED_MS = 0
"""The expiry time in a response with an error, as in Kafka. `_NOT_ALLOWED_MS` is the expiry time
for connections that may not send token requests."""


def may_ask(connection: Connection) -> bool:
    """Returns True if the connection may send requests about tokens: the client has logged in, but
    not with a token."""
    if connection.login is not None:
        return not connection.login.by_token
    is_authenticated = connection.principal != ANONYMOUS
    return connection.listener.protocol != _PLAINTEXT and is_authenticated


def answer_change(
    services: Services,
    request: Request,
    change: Callable[[Tokens], Awaitable[Token | int]],
    what: str,
) -> None:
    """Changes a token, and responds with the token's new expiry. Writes the change to the audit log
    under the name ``what``."""
    if not may_ask(request.connection):
        _respond(request, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, _NOT_ALLOWED_MS)
    elif services.tokens is None:
        _respond(request, DELEGATION_TOKEN_AUTH_DISABLED, _FAILED_MS)
    else:
        request.answer_later(_change(services, request, change(services.tokens), what))


async def _change(
    services: Services, request: Request, change: Awaitable[Token | int], what: str
) -> None:
    after = await change
    if isinstance(after, int):
        _respond(request, after, _FAILED_MS)
        return
    _respond(request, NONE, after.expires_ms)
    if services.audit is not None:
        services.audit.changed(
            request.connection, what, token=after.token_id, owner=str(after.owner)
        )


def _respond(request: Request, error_code: int, expires_ms: int) -> None:
    request.respond(
        {"error_code": error_code, "expiry_timestamp_ms": expires_ms, "throttle_time_ms": 0},
        error_code,
    )
