"""AlterUserScramCredentials (51): sets and deletes SCRAM credentials of users.

The request contains the salted password, which is enough to log in. Therefore the broker never
writes the request to a log line, trace or file. It stores only the keys that verify a login.
Source: KIP-554; Kafka 3.9 ``ScramControlManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import error_fields, is_allowed, refuse
from broker.authentication.users import Deletion, Upsertion
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, cluster
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED
from protocol.messages.alter_user_scram_credentials import API
from security.acls.model import Operation

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_ALTER = cluster(Operation.ALTER)


def _handle(services: Services, request: Request) -> None:
    if not is_allowed(services, request, _ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return
    request.answer_later(_alter(services, request))


async def _alter(services: Services, request: Request) -> None:
    assert services.users is not None
    slices = services.slicer.work(API.name)
    value = request.value
    deletions = [Deletion(each["name"], each["mechanism"]) for each in value["deletions"]]
    upsertions = [
        Upsertion(
            each["name"],
            each["mechanism"],
            each["iterations"],
            each["salt"],
            each["salted_password"],
        )
        for each in value["upsertions"]
    ]
    outcomes = await slices.beside(services.users.alter(deletions, upsertions, slices))
    results = [
        {"user": name, "error_code": outcome.error_code, "error_message": outcome.message}
        for name, outcome in outcomes.items()
    ]
    slices.end()
    request.respond({"results": results})
    if services.audit is not None:
        names = [name for name, outcome in outcomes.items() if not outcome.error_code]
        services.audit.changed_all(request.connection, "SCRAM credentials changed", names)


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    error = error_fields(CLUSTER_AUTHORIZATION_FAILED)
    users = {each["name"] for each in (*value["deletions"], *value["upsertions"])}
    return {"results": [{"user": name, **error} for name in sorted(users)]}


SERVED = ServedApi(API, 0, 0, _handle, elements_max=2000, rights=Rights((_ALTER,)))
