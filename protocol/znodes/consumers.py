"""``/consumers/<group>``: members, owners and offsets of the old consumer of Kafka 0.8 to 0.11.

The node of an offset contains the next offset to read as plain text. The node of an owner contains
the thread that owns the partition.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.znodes.fields import BadNode, Fields

CONSUMERS = "/consumers"


class OldMember(NamedTuple):
    """A member of a group of the old consumer."""

    consumer_id: str
    subscription: dict[str, int]
    """The number of threads for each topic, or for the regular expression of a white list or black
    list."""
    pattern: str
    """The kind of subscription: ``static``, ``white_list`` or ``black_list``."""


def ids_path(group_id: str) -> str:
    """Returns the path under which the members of a group are registered."""
    return f"{CONSUMERS}/{group_id}/ids"


def owner_path(group_id: str, topic: str, partition: int) -> str:
    """Returns the path of the node that contains the owner of a partition."""
    return f"{CONSUMERS}/{group_id}/owners/{topic}/{partition}"


def offset_path(group_id: str, topic: str, partition: int) -> str:
    """Returns the path of the node that contains a group's offset in a partition."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic}/{partition}"


def encode_offset(offset: int) -> bytes:
    return str(offset).encode()


def decode_offset(path: str, data: bytes) -> int:
    """Returns the next offset that the group reads. Raises BadNode."""
    try:
        return int(data)
    except ValueError:
        raise BadNode(path, f"has {data[:40]!r}, which is not an offset") from None


def decode_member(group_id: str, consumer_id: str, data: bytes) -> OldMember:
    """Returns the member in a node. Raises BadNode."""
    fields = Fields(f"{ids_path(group_id)}/{consumer_id}", data)
    subscription = fields.all.get("subscription")
    if not isinstance(subscription, dict) or not all(
        type(each) is int for each in subscription.values()
    ):
        raise fields.bad("subscription", "an object with the number of threads of each topic")
    return OldMember(consumer_id, dict(subscription), fields.text("pattern", "static"))
