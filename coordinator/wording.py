"""Texts of log lines and journal entries about classic groups.

Texts name members with their hosts, and list the topics that a changed subscription added and
removed. Subscriptions can be decoded only for protocol type "consumer"; other metadata is compared
as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.classic.member import Member
from protocol.consumer_protocol import CONSUMER, subscribed_topics
from protocol.errors import ProtocolError

Protocols = Sequence[tuple[str, bytes]]

_REASON_CHARACTERS = 255
"""Maximum length of the reason that a client sends. Kafka's clients truncate the reason to the same
length (KIP-800)."""
_NAMED = 3


def short(reason: str | None) -> str | None:
    """Returns the reason that a client sent, truncated to _REASON_CHARACTERS. Returns None and ""
    unchanged."""
    return reason[:_REASON_CHARACTERS] if reason else reason


def with_reason(what: str, reason: str | None) -> str:
    return f"{what}: {short(reason)}" if reason else what


def seconds(milliseconds: int) -> str:
    """Returns a duration in seconds with one decimal, as text."""
    return f"{milliseconds / 1000:.1f} s"


def some_of(parts: list[str], separator: str) -> str:
    """Returns the first _NAMED parts, joined by the separator, and how many more there are."""
    more = f"{separator}and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return separator.join(parts[:_NAMED]) + more


class Change(NamedTuple):
    """The difference between a member's old and new protocols."""

    detail: str
    is_visible: bool
    """True if the topics or protocols changed, or if changed metadata can't be decoded. False if
    only other metadata changed, such as the list of owned partitions, which some assignors change
    in every rebalance."""


def named(member: Member) -> str:
    instance = member.group_instance_id
    name = member.member_id if instance is None else f"{instance} ({member.member_id})"
    return f"{name} from {plain_host(member.client_host)}"


def plain_host(host: str) -> str:
    """Returns the address without the prefix that Kafka writes: a slash, or the host name and a
    slash."""
    return host.rpartition("/")[2]


def change_of(protocol_type: str | None, member: Member, new: Protocols) -> Change | None:
    """Returns the difference between a member's protocols or subscriptions and ``new``; None if
    they are equal. If the member was loaded from the log, only the selected protocol is compared,
    because the log stores no other protocol."""
    old: Protocols = member.protocols
    if member.restored:
        kept = dict(old)
        old = [(name, kept.get(name, metadata)) for name, metadata in new]
    if tuple(old) == tuple(new):
        return None
    old_names, new_names = [name for name, _ in old], [name for name, _ in new]
    if old_names != new_names:
        before, after = ",".join(old_names), ",".join(new_names)
        return Change(f"changed its protocols from {before} to {after}", True)
    differing = [(was, now) for (_, was), (_, now) in zip(old, new, strict=True) if was != now]
    if protocol_type != CONSUMER:
        return Change("changed its metadata", True)
    try:
        pairs = [(subscribed_topics(was), subscribed_topics(now)) for was, now in differing]
    except ProtocolError:
        return Change("changed its metadata, which can't be decoded", True)
    for was, now in pairs:
        if set(was) != set(now):
            return Change(_topics(set(was), set(now)), True)
    if any(was != now for was, now in pairs):
        return Change("listed the same topics in another order", True)
    return Change(
        "changed its metadata (for example its owned partitions), but not its topics", False
    )


def _topics(was: set[str], now: set[str]) -> str:
    parts = []
    if now - was:
        parts.append(f"added {some_of(sorted(now - was), ', ')}")
    if was - now:
        parts.append(f"removed {some_of(sorted(was - now), ', ')}")
    return f"changed its subscription: {'; '.join(parts)}"
