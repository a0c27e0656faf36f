"""Replication throttles (KIP-73): a byte rate for the partitions that this broker leads, and a byte
rate for the partitions that it follows.

A replica is throttled if the topic's list of throttled replicas contains ``PARTITION:BROKER`` or
all replicas. The bytes of all throttled replicas are counted, in sync or not. As long as these
bytes exceed the rate, throttled replicas that are *not* in sync get no records: a leader omits
their records from its responses, and a follower omits their partitions from its fetches. In-sync
replicas are never delayed, since a delay would remove them from the ISR. Source: Kafka 3.9
``ReplicationQuotaManager``, ``ReplicaManager.shouldLeaderThrottle``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from broker.config.config import Config
from broker.time import Time
from security.quotas.sampled_rate import SampledRate

ALL: Final = "*"


class ReplicationQuota:
    """The throttle of the leaders on one broker, or of its followers. Only the event loop's thread
    may use this class."""

    def __init__(
        self,
        node_id: int,
        replicas: Callable[[str], str],
        bytes_per_second: Callable[[], int],
        rate: SampledRate,
        time: Time,
    ) -> None:
        """Creates the throttle. ``replicas`` returns a topic's list of throttled replicas.
        ``bytes_per_second`` returns the current limit."""
        self._node_id = node_id
        self._replicas = replicas
        self._allowed = bytes_per_second
        self._rate = rate
        self._time = time
        self.throttled_bytes = 0
        """The number of bytes of throttled replicas that were sent to followers or fetched from
        leaders since the process started."""

    def is_throttled(self, topic: str, index: int) -> bool:
        """Returns True if the topic's list of throttled replicas contains this broker's replica of
        the partition ``index``."""
        replicas = self._replicas(topic)
        if not replicas:
            return False
        return replicas == ALL or index in _partitions(replicas, self._node_id)

    def holds_back(self, topic: str, index: int) -> bool:
        """Returns True if out-of-sync replicas of the partition ``index`` currently get no
        records."""
        return self.is_throttled(topic, index) and self.bytes_per_second > self._allowed()

    def count(self, topic: str, index: int, size_bytes: int) -> None:
        """Counts bytes of the partition ``index`` that were sent or fetched, if the replica is
        throttled."""
        if size_bytes and self.is_throttled(topic, index):
            self.throttled_bytes += size_bytes
            self._rate.record(size_bytes, self._time.now().mono_ms)

    @property
    def bytes_per_second(self) -> float:
        """The measured rate of all throttled replicas over the last windows."""
        return self._rate.per_second(self._time.now().mono_ms)


class ReplicationQuotas(NamedTuple):
    """The throttle of leaders and the throttle of followers."""

    leader: ReplicationQuota
    follower: ReplicationQuota


def replication_quotas(
    node_id: int,
    config: Config,
    settings_of: Callable[[str], Mapping[str, Any]],
    time: Time,
) -> ReplicationQuotas:
    """Returns the replication throttles of a broker. The throttles read ``config`` and the settings
    of topics at each use."""
    windows = config["replication.quota.window.num"]
    window_ms = config["replication.quota.window.size.seconds"] * 1000

    def quota(replicas: str, rate: str) -> ReplicationQuota:
        return ReplicationQuota(
            node_id,
            lambda topic: settings_of(topic)[replicas],
            lambda: config[rate],
            SampledRate(windows, window_ms),
            time,
        )

    return ReplicationQuotas(
        quota("leader.replication.throttled.replicas", "leader.replication.throttled.rate"),
        quota("follower.replication.throttled.replicas", "follower.replication.throttled.rate"),
    )


@lru_cache(maxsize=1024)
def _partitions(replicas: str, node_id: int) -> frozenset[int]:
    """Returns the partitions whose replica on broker ``node_id`` is in the list ``replicas``."""
    pairs = (each.split(":") for each in replicas.split(","))
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == node_id)
