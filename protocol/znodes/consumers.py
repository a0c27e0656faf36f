"""``/consumers/<group>``: members, owners and offsets of the old consumer of 0.8 to 0.11.

The node of an offset has the next offset as plain text; the node of an owner has the thread that
owns the partition.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.znodes.fields import BadNode, Fields

CONSUMERS = "/consumers"


class OldMember(NamedTuple):
    """A member of an old consumer's group."""

    consumer_id: str
    subscription: dict[str, int]
    """The number of threads by topic, or by the regular expression of a white list or black list.
    """
    pattern: str
    """``static``, ``white_list`` or ``black_list``."""


def ids_path(group_id: str) -> str:
    """The parent of the registrations of a group's members."""
    return f"{CONSUMERS}/{group_id}/ids"


def owner_path(group_id: str, topic: str, partition: int) -> str:
    """The path of the owner's node of a partition."""
    return f"{CONSUMERS}/{group_id}/owners/{topic}/{partition}"


def offset_path(group_id: str, topic: str, partition: int) -> str:
    """The path of the node of a group's offset in a partition."""
    return f"{CONSUMERS}/{group_id}/offsets/{topic}/{partition}"


def encode_offset(offset: int) -> bytes:
    """Returns the data of a node with the next offset that the group reads."""
    return str(offset).encode()


def decode_offset(path: str, data: bytes) -> int:
    """The next offset that the group reads. Raises BadNode."""
    try:
        return int(data)
    except ValueError:
        raise BadNode(path, f"has {data[:40]!r}, which is not an offset") from None


def decode_member(group_id: str, consumer_id: str, data: bytes) -> OldMember:
    """The member in a node. Raises BadNode."""
    fields = Fields(f"{ids_path(group_id)}/{consumer_id}", data)
    subscription = fields.all.get("subscription")
    if not isinstance(subscription, dict) or not all(
        type(each) is int for each in subscription.values()
    ):
        raise fields.bad("subscription", "an object with the number of threads of each topic")
    return OldMember(consumer_id, dict(subscription), fields.text("pattern", "static"))
