"""Counts, for one scrape, the replicas of this broker and the partitions that its fetchers follow.

A standalone broker leads all its partitions, and none of its replicas is out of sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.metrics.scan import STEP, View
from broker.metrics.sources import Sources
from broker.topics.partition import Partition
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.roles import Role
from broker.topics.topic_logs import TopicLogs
from replication.leader import NEVER, LedReplicas

if TYPE_CHECKING:
    from broker.cluster.replicas.fetcher import Fetcher
    from broker.cluster.replicas.followed import Followed

REASONS = ("dead", "silent", "behind", "added")
"""The reasons why a replica is out of sync.

"dead": its broker is not alive. "silent": it does not fetch. "behind": it fetches, but lags.
"added": a reassignment is adding it.
"""


@dataclass(slots=True)
class OutOfSync:
    """The number of replicas that are out of sync for one reason, and the longest time in ms for
    which one of them has been out of sync."""

    count: int = 0
    oldest_ms: int = 0


@dataclass(slots=True)
class LeaderLag:
    """The lag of this broker's replicas behind one leader."""

    records: int = 0
    """The largest lag of a partition, in records."""
    oldest_ms: int = 0
    """The longest time in ms for which a partition has lagged without a break."""


class ClusterLook(View):
    """Counts of replicas and partitions for one scrape."""

    def __init__(self, sources: Sources) -> None:
        self.roles: Counter[str] = Counter(dict.fromkeys([each.value for each in Role], 0))
        """The number of replicas on this broker, by role."""
        self.under_replicated = self.under_min_isr = self.at_min_isr = self.reassigning = 0
        """Four numbers of partitions that this broker leads: partitions with fewer replicas in the
        ISR than assigned; with an ISR below min.insync.replicas; with an ISR equal to
        min.insync.replicas; and partitions in reassignment."""
        self.out_of_sync = {reason: OutOfSync() for reason in REASONS}
        self.waiting_records = 0
        """The number of records above the high watermarks of the partitions that this broker leads.
        """
        self.stands_ms = 0
        """The longest time in ms for which the high watermark of a partition has been below the log
        end offset."""
        self.behind: dict[int, LeaderLag] = {}
        """The lag of this broker's replicas behind each leader, by the leader's broker id."""
        self.fetching = self.failing = 0
        """The numbers of fetchers whose last request succeeded (``fetching``) and failed
        (``failing``)."""
        self.stopped = 0
        """The number of followed partitions that are not fetched until the controller sends a new
        leader epoch."""
        self.followed_by: Callable[[Fetcher, Followed], None] = lambda *_: None
        """A function that is called for each partition that this broker follows."""
        self._sources = sources
        self._now_ms = sources.time.now().mono_ms

    # -- the replicas of this broker

    def partitions(self, entry: TopicLogs, partitions: Sequence[Partition]) -> None:  # noqa: ARG002
        for each in partitions:
            if not isinstance(each, Replica):
                self.roles[Role.LEADER.value] += 1
                self.at_min_isr += 1
                continue
            self.roles[each.role.value] += 1
            if each.led is not None:
                self._look_at_led(each, each.led)

    def _look_at_led(self, replica: Replica, led: LedReplicas) -> None:
        state = led.state
        in_sync = len(state.isr)
        self.under_replicated += is_under_replicated(led)
        self.under_min_isr += in_sync < led.min_isr
        self.at_min_isr += in_sync == led.min_isr
        self.reassigning += bool(state.adding or state.removing)
        self.waiting_records += max(0, replica.log.log_end_offset - replica.high_watermark)
        if led.waits_since_ms != NEVER:
            self.stands_ms = max(self.stands_ms, self._now_ms - led.waits_since_ms)
        for replica_id, since_ms in led.out_since_ms.items():
            found = self.out_of_sync[self._reason(led, replica_id)]
            found.count += 1
            found.oldest_ms = max(found.oldest_ms, self._now_ms - since_ms)

    def _reason(self, led: LedReplicas, replica_id: int) -> str:
        if not led.rules.is_alive(replica_id):
            return "dead"
        if replica_id in led.state.adding:
            return "added"
        fetched_ms = led.followers[replica_id].fetched_ms
        return "silent" if self._now_ms - fetched_ms > led.rules.lag_time_max_ms else "behind"

    # -- fetchers and the controller

    def fetchers(self) -> Iterator[int]:
        """Updates the numbers about the partitions that this broker follows. If this broker is the
        controller, also updates the numbers about the cluster. Works in steps; yields the number of
        partitions of each step."""
        member = self._sources.member
        if member is None:
            return
        for fetcher in member.fetchers.all:
            followed = list(fetcher.followed.values())
            if followed:
                self.failing += fetcher.failures > 0
                self.fetching += not fetcher.failures
            found = self.behind.setdefault(fetcher.leader, LeaderLag())
            for first in range(0, len(followed), STEP):
                for each in followed[first : first + STEP]:
                    lag = each.lag
                    self.stopped += each.is_stopped
                    self.followed_by(fetcher, each)
                    if lag:
                        found.records = max(found.records, lag)
                        behind_ms = self._now_ms - each.behind_since_ms
                        found.oldest_ms = max(found.oldest_ms, behind_ms)
                yield STEP
        yield from member.controller_figures.look()


def is_under_replicated(led: LedReplicas) -> bool:
    """Returns True if a replica is missing from the ISR. Replicas that a reassignment is adding do
    not count."""
    state = led.state
    return len(state.replicas) - len(state.adding) > len(state.isr)
