"""CreateDelegationToken (38): issues a token that authenticates its owner for a limited time.

Versions: v1 is the same as v0; v2 is flexible; v3 adds the owner of the token, who may differ from
the requester. Source: KIP-48, KIP-373.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.token_ends import may_ask
from broker.net.request import Request, ServedApi
from broker.net.required_acls import HandlerAcl, Rights
from protocol.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    NONE,
)
from protocol.messages.create_delegation_token import API
from security.acls.model import Operation, ResourceType
from security.principal import Principal

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_CREATE_TOKENS = HandlerAcl(
    Operation.CREATE_TOKENS, ResourceType.USER, "the token's owner", "for a token of another owner"
)


def _handle(services: Services, request: Request) -> None:
    value, connection = request.value, request.connection
    requester = owner = connection.principal
    if value["owner_principal_name"]:
        owner = Principal(value["owner_principal_type"] or "", value["owner_principal_name"])
    if not may_ask(connection):
        _refuse(request, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, owner, requester)
    elif owner != requester and not is_allowed(services, request, _CREATE_TOKENS, str(owner)):
        _refuse(request, DELEGATION_TOKEN_AUTHORIZATION_FAILED, owner, requester)
    elif services.tokens is None:
        _refuse(request, DELEGATION_TOKEN_AUTH_DISABLED, owner, requester)
    else:
        request.answer_later(_create(services, request, owner, requester))


async def _create(
    services: Services, request: Request, owner: Principal, requester: Principal
) -> None:
    assert services.tokens is not None
    value = request.value
    renewers = tuple(
        Principal(each["principal_type"], each["principal_name"]) for each in value["renewers"]
    )
    made = await services.tokens.create(owner, requester, renewers, value["max_lifetime_ms"])
    if isinstance(made, int):
        _refuse(request, made, owner, requester)
        return
    request.respond(
        {
            **_of(owner, requester),
            "error_code": NONE,
            "issue_timestamp_ms": made.issued_ms,
            "expiry_timestamp_ms": made.expires_ms,
            "max_timestamp_ms": made.ends_ms,
            "token_id": made.token_id,
            "hmac": services.tokens.hmac_of(made),
            "throttle_time_ms": 0,
        }
    )
    if services.audit is not None:
        services.audit.changed(
            request.connection, "delegation token created", token=made.token_id, owner=str(owner)
        )


def _refuse(request: Request, error_code: int, owner: Principal, requester: Principal) -> None:
    request.respond(
        {
            **_of(owner, requester),
            "error_code": error_code,
            "issue_timestamp_ms": -1,
            "expiry_timestamp_ms": -1,
            "max_timestamp_ms": -1,
            "token_id": "",
            "hmac": b"",
            "throttle_time_ms": 0,
        },
        error_code,
    )


def _of(owner: Principal, requester: Principal) -> dict[str, Any]:
    return {
        "principal_type": owner.type,
        "principal_name": owner.name,
        "token_requester_principal_type": requester.type,
        "token_requester_principal_name": requester.name,
    }


SERVED = ServedApi(
    API,
    0,
    3,
    _handle,
    elements_max=2000,
    rights=Rights(own=(_CREATE_TOKENS,)),
)
