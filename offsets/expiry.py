"""The expiry time of a committed offset: Kafka's rules since KIP-211, as pure functions.

- A group with a protocol type, in state Empty: an offset expires ``retention_ms`` after
  the group became empty. If that time is unknown, it expires ``retention_ms`` after the
  commit.
- A Stable group of type "consumer" whose subscriptions are known: an offset expires
  ``retention_ms`` after the commit if no member subscribes to the topic.
- A group without a protocol type (consumers that use assign()): an offset expires
  ``retention_ms`` after the commit, even while the consumer is alive. If the broker
  counts fetches as activity, it expires ``retention_ms`` after the last fetch of the
  group's offsets.
- Any other group: offsets do not expire.

An expire timestamp from the client (OffsetCommit v2 to v4) replaces the time in the first three
cases. If the wall clock is set back, offsets only live longer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

NO_TIMESTAMP_MS = -1
CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupCondition(NamedTuple):
    """The properties of a group on which the expiry of its offsets depends. The defaults describe a
    group that has only offsets."""

    protocol_type: str | None = None
    """The group's protocol type; None or "" for a group that no member ever joined."""
    empty: bool = True
    stable: bool = False
    state_timestamp_ms: int = NO_TIMESTAMP_MS
    """Wall time in ms of the last state transition; -1 if the group's record has no time (value
    versions 0 and 1)."""
    subscribed_topics: Collection[str] | None = None
    """Topics to which at least one member subscribes; None if a subscription could not be
    decoded."""
    read_ms: int = NO_TIMESTAMP_MS
    """Wall time in ms of the last fetch of the group's offsets. It is -1 if fetches do not count as
    activity, or if the group has a protocol type."""


class ExpiryRule(NamedTuple):
    """The rule of expiry that applies to a group."""

    since_ms: int
    """Wall time in ms from which the retention is counted; -1 if it is counted from the commit time
    of each offset."""
    kept_topics: Collection[str]
    """The topics in which offsets do not expire."""
    read_ms: int = NO_TIMESTAMP_MS
    """A wall time in ms before which the retention of an offset can't begin, such as the time of
    the last OffsetFetch. -1 means that the rule has no such time."""


def rule_for(group: GroupCondition) -> ExpiryRule | None:
    """Returns the rule that applies to the group; None if the group's offsets do not expire."""
    if not group.protocol_type:
        return ExpiryRule(NO_TIMESTAMP_MS, (), group.read_ms)
    if group.empty:
        return ExpiryRule(group.state_timestamp_ms, ())
    if (
        group.stable
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and group.subscribed_topics is not None
    ):
        return ExpiryRule(NO_TIMESTAMP_MS, group.subscribed_topics)
    return None


def expires_at(
    rule: ExpiryRule, commit_timestamp_ms: int, expire_timestamp_ms: int, *, retention_ms: int
) -> int:
    """Returns the expiry time, in wall milliseconds, of an offset in a topic that is not in
    ``rule.kept_topics``."""
    if expire_timestamp_ms != NO_TIMESTAMP_MS:
        return expire_timestamp_ms
    since_ms = commit_timestamp_ms if rule.since_ms == NO_TIMESTAMP_MS else rule.since_ms
    return max(since_ms, rule.read_ms) + retention_ms


def may_expire(
    topic: str, commits_from_ms: int, rule: ExpiryRule, retention_ms: int, until_ms: int
) -> bool:
    """Returns True if an offset in the topic may expire by ``until_ms``. No offset of the topic was
    committed before ``commits_from_ms``. A negative ``commits_from_ms`` means that at least one
    offset has its own expire timestamp."""
    if topic in rule.kept_topics:
        return False
    if commits_from_ms < 0:
        return True
    at_ms = expires_at(rule, commits_from_ms, NO_TIMESTAMP_MS, retention_ms=retention_ms)
    return at_ms <= until_ms
