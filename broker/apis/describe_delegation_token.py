"""DescribeDelegationToken (41): the tokens that the client may see, with their HMACs.

The owner, the requester and the renewers of a token may see it. Other clients need DESCRIBE on the
token, or DESCRIBE_TOKENS on its owner. The response omits other tokens. Versions: v1 is the same as
v0; v2 is flexible; v3 adds the requester of a token. Source: KIP-48, KIP-373.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.token_ends import may_ask
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import HandlerAcl, RequiredAcl, Rights
from protocol.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    NONE,
)
from protocol.messages.describe_delegation_token import API
from security.acls.model import Operation, ResourceType
from security.principal import Principal
from security.tokens import Token, is_about

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.authentication.tokens import Tokens

_DESCRIBE_TOKEN = RequiredAcl(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, is_logged=False)
_DESCRIBE_TOKENS = HandlerAcl(
    Operation.DESCRIBE_TOKENS,
    ResourceType.USER,
    "the token's owner",
    "to see tokens of other owners",
    unless=_DESCRIBE_TOKEN,
    is_logged=False,
)


def _handle(services: Services, request: Request) -> Steps | None:
    asked = request.value["owners"]
    if not may_ask(request.connection):
        _respond(request, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
        return None
    if services.tokens is None:
        _respond(request, DELEGATION_TOKEN_AUTH_DISABLED, [])
        return None
    owners = None
    if asked is not None:
        owners = {Principal(each["principal_type"], each["principal_name"]) for each in asked}
    return _answer(services, request, services.tokens, owners)


def _answer(
    services: Services, request: Request, tokens: Tokens, owners: set[Principal] | None
) -> Steps:
    found = []
    for token in tokens.all():
        is_asked = owners is None or not owners.isdisjoint(_named(token))
        if is_asked and _may_see(services, request, token):
            found.append(_described(token, tokens.hmac_of(token)))
        yield None
    _respond(request, NONE, found)


def _may_see(services: Services, request: Request, token: Token) -> bool:
    return (
        is_about(token, request.connection.principal)
        or is_allowed(services, request, _DESCRIBE_TOKEN, token.token_id)
        or is_allowed(services, request, _DESCRIBE_TOKENS, str(token.owner))
    )


def _named(token: Token) -> tuple[Principal, ...]:
    return (token.owner, token.requester, *token.renewers)


def _described(token: Token, proof: bytes) -> Mapping[str, Any]:
    return {
        "principal_type": token.owner.type,
        "principal_name": token.owner.name,
        "token_requester_principal_type": token.requester.type,
        "token_requester_principal_name": token.requester.name,
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.ends_ms,
        "token_id": token.token_id,
        "hmac": proof,
        "renewers": [
            {"principal_type": each.type, "principal_name": each.name} for each in token.renewers
        ],
    }


def _respond(request: Request, error_code: int, tokens: list[Mapping[str, Any]]) -> None:
    request.respond({"error_code": error_code, "tokens": tokens, "throttle_time_ms": 0}, error_code)


SERVED = ServedApi(
    API,
    0,
    3,
    _handle,
    elements_max=2000,
    rights=Rights(own=(_DESCRIBE_TOKENS,)),
)
