"""Tests each row of the table of offset retention. "-" means that the offset never expires."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.expiry import ExpiryRule, GroupCondition, expires_at, rule_for

RETENTION_MS = 1_000
WEEK_MS = 7 * 24 * 3600 * 1000

EMPTY = GroupCondition("consumer", empty=True, state_timestamp_ms=5_000)
EMPTY_SINCE_UNKNOWN = GroupCondition("consumer", empty=True)
EMPTY_CONNECT = GroupCondition("connect", empty=True, state_timestamp_ms=5_000)
STABLE = GroupCondition(
    "consumer", empty=False, stable=True, state_timestamp_ms=5_000, subscribed_topics={"subscribed"}
)
STABLE_UNREADABLE = STABLE._replace(subscribed_topics=None)
STABLE_CONNECT = STABLE._replace(protocol_type="connect")
REBALANCING = STABLE._replace(stable=False)
SIMPLE = GroupCondition()
SIMPLE_FROM_LOG = GroupCondition(protocol_type="")

# group                topic         committed  named expiry   expires at
TABLE = [
    (EMPTY,               "t",           2_000,     -1,           6_000),
    (EMPTY,               "t",           5_500,     -1,           6_000),
    (EMPTY,               "t",           2_000,  9_000,           9_000),
    (EMPTY,               "t",           2_000,  3_000,           3_000),
    (EMPTY_SINCE_UNKNOWN, "t",           2_000,     -1,           3_000),
    (EMPTY_CONNECT,       "t",           2_000,     -1,           6_000),
    (STABLE,              "t",           2_000,     -1,           3_000),
    (STABLE,              "t",           2_000,  9_000,           9_000),
    (STABLE,              "subscribed",  2_000,     -1,           None),
    (STABLE,              "subscribed",  2_000,  9_000,           None),
    (STABLE_UNREADABLE,   "t",           2_000,     -1,           None),
    (STABLE_CONNECT,      "t",           2_000,     -1,           None),
    (REBALANCING,         "t",           2_000,     -1,           None),
    (REBALANCING,         "t",           2_000,  9_000,           None),
    (SIMPLE,              "t",           2_000,     -1,           3_000),
    (SIMPLE,              "t",           2_000,  9_000,           9_000),
    (SIMPLE_FROM_LOG,     "t",           2_000,     -1,           3_000),
]  # fmt: skip


def has_expired(
    rule: ExpiryRule, topic: str, committed: int, named: int, *, retention_ms: int, wall_ms: int
) -> bool:
    at_ms = expires_at(rule, committed, named, retention_ms=retention_ms)
    return topic not in rule.kept_topics and wall_ms >= at_ms


def expired(group: GroupCondition, topic: str, committed: int, named: int, wall_ms: int) -> bool:
    rule = rule_for(group)
    return rule is not None and has_expired(
        rule, topic, committed, named, retention_ms=RETENTION_MS, wall_ms=wall_ms
    )


@pytest.mark.parametrize(("group", "topic", "committed", "named", "at"), TABLE)
def test_offset_expires_exactly_at_the_time_in_the_retention_table(
    group, topic, committed, named, at
) -> None:
    if at is None:
        assert not expired(group, topic, committed, named, wall_ms=2**62)
    else:
        assert not expired(group, topic, committed, named, wall_ms=at - 1)
        assert expired(group, topic, committed, named, wall_ms=at)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_maximum_retention_does_not_overflow(committed: int, wall_ms: int) -> None:
    rule = rule_for(SIMPLE)
    assert rule is not None
    retention_ms = (2**31 - 1) * 60_000  # the maximum of offsets.retention.minutes
    gone = has_expired(rule, "t", committed, -1, retention_ms=retention_ms, wall_ms=wall_ms)
    assert gone == (wall_ms >= committed + retention_ms)


def test_offset_does_not_expire_when_the_clock_goes_back() -> None:
    rule = rule_for(SIMPLE)
    assert rule is not None
    for wall_ms in (0, -WEEK_MS):
        assert not has_expired(rule, "t", WEEK_MS, -1, retention_ms=WEEK_MS, wall_ms=wall_ms)
