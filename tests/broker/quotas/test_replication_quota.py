"""Replication quotas: which replicas are throttled, and how long replication waits."""

from __future__ import annotations

import pytest

from broker.config.config import Config
from broker.quotas.replication_quota import ReplicationQuota, replication_quotas
from broker.time import Time

NODE = 2


class Clock:
    """A mock clock, and the topic setting that lists the throttled replicas. The test changes the
    time and the setting."""

    def __init__(self, replicas: str, rate: int | None = 1000) -> None:
        self.replicas = replicas
        self.now_s = 1_000.0
        rates = (
            {}
            if rate is None
            else dict.fromkeys(
                ("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
                str(rate),
            )
        )
        self.config = Config(rates)
        self.quotas = replication_quotas(
            NODE,
            self.config,
            lambda topic: {
                f"{side}.replication.throttled.replicas": self.replicas if topic == "t" else ""
                for side in ("leader", "follower")
            },
            Time(monotonic_s=lambda: self.now_s),
        )

    @property
    def leader(self) -> ReplicationQuota:
        return self.quotas.leader


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [
        ("", []),
        ("*", [0, 1, 12]),
        ("0:2,12:2", [0, 12]),
        ("0:1,1:2,12:3", [1]),
        ("0:1,1:1", []),
        ("00:02", [0]),
    ],
)
def test_replication_quota_throttles_only_replicas_that_the_topic_setting_lists(
    replicas: str, throttled: list[int]
) -> None:
    quota = Clock(replicas).leader
    assert [index for index in (0, 1, 12) if quota.is_throttled("t", index)] == throttled
    assert not quota.is_throttled("other", 0)


def test_throttled_replica_waits_when_the_rate_is_exceeded() -> None:
    clock = Clock("0:2")
    quota = clock.leader
    quota.count("t", 0, 1000)
    assert not quota.holds_back("t", 0)
    quota.count("t", 0, 1)
    assert quota.holds_back("t", 0)
    assert not quota.holds_back("t", 1)
    assert not clock.quotas.follower.holds_back("t", 0), "each side has its own"
    clock.now_s += 2
    assert not quota.holds_back("t", 0)
    assert quota.bytes_per_second == pytest.approx(500.5)
    assert quota.throttled_bytes == 1001


def test_unthrottled_partition_does_not_count_for_the_replication_quota() -> None:
    quota = Clock("0:2").leader
    quota.count("t", 1, 10_000)
    quota.count("other", 0, 10_000)
    assert quota.throttled_bytes == 0
    assert not quota.holds_back("t", 0)


def test_throttled_replica_gets_records_without_delay_when_no_replication_rate_is_set() -> None:
    quota = Clock("*", rate=None).leader
    quota.count("t", 0, 1 << 60)
    assert not quota.holds_back("t", 0)


def test_replication_rate_of_0_allows_the_first_response() -> None:
    """As in Kafka, the broker measures the rate after it has sent a response."""
    quota = Clock("*", rate=0).leader
    assert not quota.holds_back("t", 0)
    quota.count("t", 0, 1)
    assert quota.holds_back("t", 0)


def test_changed_replication_rate_and_replica_list_apply_immediately() -> None:
    clock = Clock("*")
    quota = clock.leader
    quota.count("t", 0, 5000)
    assert quota.holds_back("t", 0)
    clock.config.adopt(
        clock.config.with_dynamic({}, {"leader.replication.throttled.rate": "10000"})
    )
    assert not quota.holds_back("t", 0)
    clock.config.adopt(clock.config.with_dynamic({}, {}))
    assert quota.holds_back("t", 0)
    clock.replicas = ""
    assert not quota.holds_back("t", 0)
