"""CreateAcls (30): adds ACLs; an error for one ACL does not affect the others.

Versions: v1 adds pattern types; v2 is flexible. An ACL that exists already is not an error. All
added ACLs are in effect on this broker and stored on its disk before the response is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.acl_codes import NO_AUTHORIZER, entry_of
from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    SECURITY_DISABLED,
    UNKNOWN_SERVER_ERROR,
)
from protocol.messages.create_acls import API
from security.acls.model import Operation, wrong_with

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ALTER = cluster(Operation.ALTER)


def _handle(services: Services, request: Request) -> None:
    request.check()
    if not is_allowed(services, request, _ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return
    request.answer_later(_create(services, request))


async def _create(services: Services, request: Request) -> None:
    slices = services.slicer.work(API.name)
    entries, wrong = [], []
    for each in request.value["creations"]:
        entry = entry_of(each)
        entries.append(entry)
        wrong.append(wrong_with(entry))
        if slices.over:
            await slices.pause()
    slices.end()
    if services.acls is None:
        results = [_result(SECURITY_DISABLED, NO_AUTHORIZER) for _ in entries]
    else:
        good = [entry for entry, why in zip(entries, wrong, strict=True) if why is None]
        failed = await services.acls.add(request.connection, good)
        results = [
            _result(INVALID_REQUEST, why)
            if why is not None
            else _result(UNKNOWN_SERVER_ERROR if entry in failed else NONE, failed.get(entry, ""))
            for entry, why in zip(entries, wrong, strict=True)
        ]
    worst = next((each["error_code"] for each in results if each["error_code"]), NONE)
    request.respond({"results": results}, worst)


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    return {"results": [error_fields(CLUSTER_AUTHORIZATION_FAILED) for _ in value["creations"]]}


def _result(error_code: int, message: str | None) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message}


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights((_ALTER,)))
