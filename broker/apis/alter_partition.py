"""AlterPartition (56): a leader asks the controller to change the ISR (KIP-497).

Versions: v1 adds the leader's state after an unclean election; v2 has topic ids in place of names;
v3 adds the epochs of the brokers in the ISR, so that the controller refuses a broker that has
restarted. Up to v1 the error for an ineligible replica is OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from broker.apis.shared.from_controller import ELEMENTS_MAX, decoded_request, decoders
from broker.apis.shared.to_controller import host_for
from broker.net.request import Request, ServedApi
from broker.net.required_acls import AMONG_BROKERS
from controller.calls import AlterPartition, IsrChange
from controller.outcome import AlteredPartition, AlterPartitionReply
from protocol.errors import INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED
from protocol.messages.alter_partition import API
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_BY_ID = 2
_RECOVERING = 1


def _handle(services: Services, request: Request) -> None:
    host = host_for(services, request)
    if host is not None:
        broker_id, broker_epoch, changes = decoded_request(request, _changes)
        request.encode = _answer
        host.submit(AlterPartition(request, broker_id, broker_epoch, changes))


def _changes(value: dict[str, Any]) -> tuple[int, int, list[IsrChange]]:
    """Returns the broker id, the broker epoch and the ISR changes of a request."""
    changes = []
    for topic in value["topics"]:
        name = topic.get("topic_name", "")
        topic_id = None if name else topic["topic_id"]
        for each in topic["partitions"]:
            isr = each.get("new_isr", ())
            epochs: tuple[int, ...] = ()
            members = each.get("new_isr_with_epochs", ())
            if members:
                isr = [member["broker_id"] for member in members]
                epochs = tuple(member["broker_epoch"] for member in members)
            changes.append(
                IsrChange(
                    name,
                    topic_id,
                    each["partition_index"],
                    each["leader_epoch"],
                    each["partition_epoch"],
                    tuple(isr),
                    epochs,
                    each.get("leader_recovery_state", 0) == _RECOVERING,
                )
            )
    return value["broker_id"], value["broker_epoch"], changes


def _answer(request: Request, reply: AlterPartitionReply) -> None:
    version = request.api_version
    topics = [
        {
            "topic_name": name,
            "topic_id": topic_id or ZERO_UUID,
            "partitions": [_partition(each, version) for each in partitions],
        }
        for (name, topic_id), partitions in groupby(reply.partitions, lambda each: each[:2])
    ]
    request.respond({"error_code": reply.error_code, "topics": topics})


def _partition(altered: AlteredPartition, version: int) -> dict[str, Any]:
    error_code = altered.error_code
    if error_code == INELIGIBLE_REPLICA and version < _BY_ID:
        error_code = OPERATION_NOT_ATTEMPTED
    return {
        "partition_index": altered.partition,
        "error_code": error_code,
        "leader_id": altered.leader,
        "leader_epoch": altered.leader_epoch,
        "isr": list(altered.isr),
        "leader_recovery_state": _RECOVERING if altered.recovering else 0,
        "partition_epoch": altered.partition_epoch,
    }


SERVED = ServedApi(
    API,
    0,
    3,
    _handle,
    elements_max=ELEMENTS_MAX,
    decoders=decoders(API, _changes),
    rights=AMONG_BROKERS,
)
