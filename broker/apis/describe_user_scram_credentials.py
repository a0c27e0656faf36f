"""DescribeUserScramCredentials (50): the SCRAM mechanisms and iterations of users.

Salts and keys are never returned. Source: KIP-554; Kafka 3.9 ``ScramImage``, ``ZkAdminManager``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
)
from protocol.messages.describe_user_scram_credentials import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.authentication.users import Users


_DESCRIBE = cluster(Operation.DESCRIBE)


def _handle(services: Services, request: Request) -> Steps | None:
    if not is_allowed(services, request, _DESCRIBE):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return None
    users = services.users
    assert users is not None
    asked = [each["name"] for each in request.value["users"] or ()]
    return _answer(users, request, Counter(asked or users.names()))


def _answer(users: Users, request: Request, asked: Counter[str]) -> Steps:
    results = []
    for name, count in asked.items():
        results.append(_described(users, name, count))
        yield None
    request.respond({"error_code": NONE, "error_message": None, "results": results})


def _described(users: Users, name: str, count: int) -> dict[str, Any]:
    code, message, infos = NONE, None, []
    if count > 1:
        code, message = (
            DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request:"
            f" {name}",
        )
    elif not (credentials := users.of(name)):
        code, message = (
            RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    else:
        infos = [
            {"mechanism": mechanism.code, "iterations": each.iterations}
            for mechanism, each in sorted(credentials.items(), key=lambda pair: pair[0].code)
        ]
    return {
        "user": name,
        "error_code": code,
        "error_message": message,
        "credential_infos": infos,
    }


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a denied request: one result for each requested user, without the
    user's name."""
    error = error_fields(CLUSTER_AUTHORIZATION_FAILED)
    denied = {"user": "", **error, "credential_infos": []}
    return {**error, "results": [denied for _ in value["users"] or ()]}


SERVED = ServedApi(API, 0, 0, _handle, rights=Rights((_DESCRIBE,)))
