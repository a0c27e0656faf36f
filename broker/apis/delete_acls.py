"""DeleteAcls (31): deletes the ACLs that match filters.

Versions: v1 adds pattern types; v2 is flexible. The response lists an ACL under each filter that it
matches. All matching ACLs are deleted on this broker, in memory and on disk, before the response is
sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.shared.acl_codes import NO_AUTHORIZER, codes_of, filter_of, pattern_codes_of
from broker.apis.shared.authorization import TEXTS, is_allowed, refuse
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from protocol.encoded_array import EncodedArray
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    SECURITY_DISABLED,
    UNKNOWN_SERVER_ERROR,
)
from protocol.messages.delete_acls import API
from security.acls.model import AclEntry, Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ALTER = cluster(Operation.ALTER)
MATCHES_MAX = 200_000
"""The maximum number of ACLs that a response lists. An ACL counts once for each filter that it
matches."""
_TOO_MANY = (
    f"The filters of this request match more than {MATCHES_MAX} ACLs in total, so this"
    " filter deleted nothing; use narrower filters."
)


def _handle(services: Services, request: Request) -> None:
    request.check()
    if not is_allowed(services, request, _ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return
    request.answer_later(_delete(services, request))


async def _delete(services: Services, request: Request) -> None:
    filters = [filter_of(each) for each in request.value["filters"]]
    acls = services.acls
    if acls is None:
        results = [_result(SECURITY_DISABLED, NO_AUTHORIZER, []) for _ in filters]
        request.respond({"filter_results": results}, SECURITY_DISABLED if filters else NONE)
        return
    from security.acls.index import AT_A_TIME  # unused without an authorizer

    slices = services.slicer.work(API.name)
    found: list[list[AclEntry] | None] = []
    every: dict[AclEntry, None] = {}
    left = MATCHES_MAX
    for wanted in filters:
        matching: list[AclEntry] = []
        for _, entries in () if wanted.wrong else acls.index.walk(wanted):
            matching += entries
            if len(matching) > left:
                break
            if slices.over:
                await slices.pause()
        if len(matching) > left:
            found.append(None)
            continue
        left -= len(matching)
        for first in range(0, len(matching), AT_A_TIME):
            every.update(dict.fromkeys(matching[first : first + AT_A_TIME]))
            if slices.over:
                await slices.pause()
        found.append(matching)
    slices.end()
    failed = await acls.remove(request.connection, list(every))
    slices = services.slicer.work(API.name)
    results = []
    for wanted, matched in zip(filters, found, strict=True):
        shown = request.array("filter_results", "matching_acls")
        for entry in matched or ():
            shown.append(_shown(entry, failed.get(entry)))
            if slices.over:
                await slices.pause()
        wrong = _TOO_MANY if matched is None else wanted.wrong
        results.append(_result(INVALID_REQUEST if wrong else NONE, wrong, shown))
    slices.end()
    request.respond({"filter_results": results}, UNKNOWN_SERVER_ERROR if failed else NONE)


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    code = CLUSTER_AUTHORIZATION_FAILED
    return {"filter_results": [_result(code, TEXTS[code], []) for _ in value["filters"]]}


def _shown(entry: AclEntry, failed: str | None) -> dict[str, Any]:
    return {
        "error_code": NONE if failed is None else UNKNOWN_SERVER_ERROR,
        "error_message": failed,
        **pattern_codes_of(entry.pattern),
        **codes_of(entry),
    }


def _result(error_code: int, message: str | None, acls: Sequence[Any] | EncodedArray) -> Any:
    return {"error_code": error_code, "error_message": message, "matching_acls": acls}


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights((_ALTER,)))
