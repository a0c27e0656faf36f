"""DescribeAcls (29): the ACLs that match a filter. Versions: v1 patterns; v2 flexible."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from broker.apis.shared.acl_codes import (
    NO_AUTHORIZER_ON_BROKER,
    codes_of,
    filter_of,
    pattern_codes_of,
)
from broker.apis.shared.authorization import error_fields, is_allowed
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, cluster
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE, SECURITY_DISABLED
from protocol.messages.describe_acls import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


_DESCRIBE = cluster(Operation.DESCRIBE)


def _handle(services: Services, request: Request) -> Steps:
    value = request.value
    if not is_allowed(services, request, _DESCRIBE):
        request.respond({**error_fields(CLUSTER_AUTHORIZATION_FAILED), "resources": []})
        return
    wanted = filter_of(value)
    resources = request.array("resources")
    answer: dict[str, Any] = {"error_code": NONE, "error_message": "", "resources": resources}
    if services.acls is None:
        answer |= {"error_code": SECURITY_DISABLED, "error_message": NO_AUTHORIZER_ON_BROKER}
    elif wanted.wrong is None:
        for pattern, found in groupby(services.acls.index.walk(wanted), itemgetter(0)):
            acls = request.array("resources", "acls")
            for _, entries in found:
                for entry in entries:
                    acls.append(codes_of(entry))
                yield None
            if acls.count:
                resources.append({**pattern_codes_of(pattern), "acls": acls})
    request.respond(answer)


SERVED = ServedApi(API, 0, 3, _handle, rights=Rights((_DESCRIBE,)))
