"""What RenewDelegationToken and ExpireDelegationToken have in common: a token gets another end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from broker.logins.tokens import may_ask
from broker.net.request import Request
from protocol.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    NONE,
)

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.logins.tokens import Tokens
    from security.tokens import Token

_NOT_ALLOWED_MS = -1
_FAILED_MS = 0
"""When a token ends, in place of an answer; both as Kafka has them."""


def answer_change(
    services: Services,
    request: Request,
    change: Callable[[Tokens], Awaitable[Token | int]],
    what: str,
) -> None:
    """Changes a token, answers with its end, and tells ``what`` was done in the audit log."""
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
