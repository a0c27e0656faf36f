"""DeleteAcls (31): the access control entries that each filter takes. v1 patterns; v2 flexible.

An entry under two filters is shown under both. All are gone at this broker, and from its disk, when
the answer is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.acl_codes import NO_AUTHORIZER, codes_of, filter_of, pattern_codes_of
from broker.net.needs import Rights, cluster
from broker.net.request import Request, ServedApi
from protocol.errors import INVALID_REQUEST, NONE, SECURITY_DISABLED, UNKNOWN_SERVER_ERROR
from protocol.messages.delete_acls import API
from security.acls.model import AclEntry, Operation

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> None:
    request.check()
    request.answer_later(_delete(services, request))


async def _delete(services: Services, request: Request) -> None:
    filters = [filter_of(each) for each in request.value["filters"]]
    acls = services.acls
    if acls is None:
        results = [_result(SECURITY_DISABLED, NO_AUTHORIZER, []) for _ in filters]
        request.respond({"filter_results": results}, SECURITY_DISABLED if filters else NONE)
        return
    slices = services.slicer.work(API.name)
    found: list[list[AclEntry]] = []
    every: dict[AclEntry, None] = {}
    for wanted in filters:
        matching: list[AclEntry] = []
        for entries in () if wanted.wrong else acls.index.walk(wanted):
            matching += entries
            every.update(dict.fromkeys(entries))
            if slices.over:
                await slices.pause()
        found.append(matching)
    slices.end()
    failed = await acls.remove(request.connection, list(every))
    slices = services.slicer.work(API.name)
    results = []
    for wanted, matching in zip(filters, found, strict=True):
        shown: list[dict[str, Any]] = []
        for entry in matching:
            shown.append(_shown(entry, failed.get(entry)))
            if slices.over:
                await slices.pause()
        wrong = wanted.wrong
        results.append(_result(INVALID_REQUEST if wrong else NONE, wrong, shown))
    slices.end()
    request.respond({"filter_results": results}, UNKNOWN_SERVER_ERROR if failed else NONE)


def _shown(entry: AclEntry, failed: str | None) -> dict[str, Any]:
    return {
        "error_code": NONE if failed is None else UNKNOWN_SERVER_ERROR,
        "error_message": failed,
        **pattern_codes_of(entry.pattern),
        **codes_of(entry),
    }


def _result(error_code: int, message: str | None, acls: list[dict[str, Any]]) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "matching_acls": acls}


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights((cluster(Operation.ALTER),)))
