"""A partition on its leader: the progress of each replica, the in-sync replicas, and the high
watermark.

| event | high watermark | in-sync replicas |
|---|---|---|
| a replica fetches at an offset | may rise | the leader may request to add a caught-up replica |
| a fetch without new records ends | | |
| the leader appends | may rise, if it is the only in-sync replica | |
| time passes | | the leader requests to remove a replica that lags too long |
| the requested change is written | may rise | as written |
| the change is rejected | may rise | unchanged, or requested again, or no more requests |
| the controller sends a state | may rise | as in the state |

Only one change is in flight at a time. Until it is decided, the high watermark waits for all
replicas that are in sync before *or* after the change (the maximal ISR, KIP-497): a replica that is
being removed still counts, and a replica that is being added counts already. The high watermark
also waits for a live replica that is out of sync but caught up. While fewer than
`min.insync.replicas` replicas are in sync, the high watermark does not move, as in Kafka since 3.7.
Source: Kafka 3.9 ``Partition.scala``, ``Replica.scala``.
"""

from __future__ import annotations

from collections.abc import Collection

from protocol.errors import (
    FENCED_LEADER_EPOCH,
    INELIGIBLE_REPLICA,
    INVALID_REQUEST,
    INVALID_UPDATE_VERSION,
    NONE,
    NOT_ENOUGH_REPLICAS,
    OPERATION_NOT_ATTEMPTED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from replication.values import PartitionState, Rules, Step, WantedIsr

UNKNOWN = -1
NEVER = -(1 << 62)

GIVEN_UP = frozenset((INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED))
"""After these errors of AlterPartition, the ISR stays unchanged, and the leader may request another
change."""
OUTDATED = frozenset(
    (
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID,
        FENCED_LEADER_EPOCH,
        INVALID_UPDATE_VERSION,
        INVALID_REQUEST,
    )
)
"""Errors that the controller returns only to an outdated leader. After such an error, the leader
waits until the controller sends the state of the partition."""


class Follower:
    """The progress of another replica of the partition, derived from its fetches."""

    __slots__ = ("caught_up_ms", "end_offset", "fetched_ms", "leader_end_offset")

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN
        """The log end offset of the replica; UNKNOWN until its first fetch."""
        self.caught_up_ms = caught_up_ms
        """Monotonic time in ms at which the replica was last fully caught up."""
        self.leader_end_offset = UNKNOWN
        """The log end offset of the leader at the time of the replica's last fetch."""
        self.fetched_ms = NEVER
        """Monotonic time in ms of the replica's last fetch."""

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Records a fetch at ``offset``. The fetch shows that the replica has all records before
        this offset."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Returns True if the replica is caught up, or was caught up at some time within the last
        ``lag_time_max_ms``."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms


class LedReplicas:
    """The replicas of one partition, on the broker that leads it."""

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        end_offset: int,
        high_watermark: int,
        epoch_start_offset: int,
        now_ms: int,
        rules: Rules,
    ) -> None:
        self.node_id = node_id
        self.rules = rules
        self.state = state
        self.end_offset = end_offset
        """The log end offset of the leader."""
        self.high_watermark = high_watermark
        self.epoch_start_offset = epoch_start_offset
        """The log end offset when this broker became leader."""
        self.pending: WantedIsr | None = None
        """The change of the ISR that this leader has requested and that has no result yet, or None.
        After some errors, the change stays pending until the controller sends the state of the
        partition."""
        self.maximal_isr = frozenset(state.isr)
        """All replicas that are in sync before or after the change in flight."""
        self.followers = {
            replica: Follower(now_ms if replica in state.isr else NEVER)
            for replica in state.replicas
            if replica != node_id
        }
        self.out_since_ms: dict[int, int] = {}
        """For each replica that is not in sync, the monotonic time in ms since when this leader has
        seen it out of sync."""
        self._note_out(now_ms)
        self.waits_since_ms = NEVER
        """The monotonic time in ms since which the leader has had records above the high watermark
        and the high watermark has not moved; NEVER if the leader has no such records."""

    # -- events

    def begun(self, now_ms: int) -> Step:
        """Begins to lead. If the leader is the only in-sync replica, the high watermark rises to
        its log end offset."""
        return self._step(now_ms)

    def follower_fetched(self, replica_id: int, offset: int, end_offset: int, now_ms: int) -> Step:
        """Handles a fetch of an assigned replica at ``offset``. The fetch shows that the replica
        has all records before this offset. Raises KeyError for any other broker."""
        follower = self.followers[replica_id]
        self.end_offset = end_offset
        moved = offset != follower.end_offset
        follower.fetched(offset, end_offset, now_ms)
        wanted = None
        if replica_id not in self.maximal_isr and self.pending is None:
            wanted = self._expanded(replica_id, offset)
        if moved:
            return self._step(now_ms, wanted)
        return Step(self.high_watermark, wanted)

    def had_all(self, replica_id: int, fetched_ms: int) -> None:
        """Records that an in-sync replica had all records at the time ``fetched_ms``, because its
        fetch returned no new records."""
        follower = self.followers.get(replica_id)
        if (
            follower is not None
            and replica_id in self.state.isr
            and follower.end_offset == self.end_offset
            and follower.fetched_ms < fetched_ms
        ):
            follower.fetched(follower.end_offset, self.end_offset, fetched_ms)

    def appended(self, end_offset: int, now_ms: int) -> Step:
        self.end_offset = end_offset
        return self._step(now_ms)

    def tick(self, now_ms: int) -> Step:
        """Requests to remove the replicas that have lagged for too long from the ISR. Also computes
        the high watermark again: it does not wait for out-of-sync replicas that have made no
        progress or are not live. The caller calls this method twice in each
        `replica.lag.time.max.ms`, and when a broker is no longer live."""
        lag_ms = self.rules.lag_time_max_ms
        behind = {
            replica
            for replica in self.state.isr
            if replica in self.followers
            and not self.followers[replica].is_caught_up(self.end_offset, now_ms, lag_ms)
        }
        return self._without(behind, now_ms)

    def removes_in_ms(self, now_ms: int) -> int | None:
        """Returns the time in ms after which `tick` will request the removal of a lagging replica
        from the ISR, unless the replica fetches before then. Returns None if no replica lags, or
        while a change of the ISR is pending."""
        lag_ms = self.rules.lag_time_max_ms
        behind = [
            self.followers[replica].caught_up_ms + lag_ms + 1 - now_ms
            for replica in self.state.isr
            if replica in self.followers and self.followers[replica].end_offset != self.end_offset
        ]
        return max(0, min(behind)) if behind and self.pending is None else None

    def lagged(self, followers: Collection[int], now_ms: int) -> Step:
        """Requests the removal of followers from the ISR, as if they had lagged for longer than
        `replica.lag.time.max.ms`. Only tests call this."""
        for replica in followers:
            follower = self.followers[replica]
            since_ms = now_ms - self.rules.lag_time_max_ms - 1
            follower.caught_up_ms = min(follower.caught_up_ms, since_ms)
        return self._without(followers, now_ms)

    def _without(self, behind: Collection[int], now_ms: int) -> Step:
        wanted = None
        left = tuple(replica for replica in self.state.isr if replica not in behind)
        if self.pending is None and left != self.state.isr:
            # The high watermark still waits for a replica that is being removed, because the
            # removal may fail.
            wanted = self._ask(left)
        return self._step(now_ms, wanted)

    def isr_written(self, partition_epoch: int, now_ms: int) -> Step:
        """Handles the success of the change in flight. ``partition_epoch`` is the version that the
        `state` znode has after this change."""
        pending = self.pending
        if pending is None or partition_epoch <= self.state.partition_epoch:
            return Step(self.high_watermark)
        self.state = self.state._replace(isr=pending.isr, partition_epoch=partition_epoch)
        self._settled()
        self._note_out(now_ms)
        return self._step(now_ms)

    def isr_refused(self, error_code: int, now_ms: int) -> Step:
        """Handles the rejection of the ISR change in flight.

        After an error of `GIVEN_UP`, the change is given up: the in-sync replicas stay as they are,
        and the high watermark does not wait for a replica that the change would have added. If this
        broker is outdated (an older version, an older epoch, an unknown partition), it requests no
        further change until the controller sends a state. After any other error it requests the
        same change again.
        """
        if self.pending is None:
            return Step(self.high_watermark)
        if error_code in GIVEN_UP:
            self._settled()
            return self._step(now_ms)
        if error_code not in OUTDATED:
            return Step(self.high_watermark, self.pending)
        return Step(self.high_watermark)

    def new_state(self, state: PartitionState, end_offset: int, now_ms: int) -> Step:
        """Applies a partition state that the controller sent, and in which this broker stays the
        leader.

        The known end offsets of the followers are kept. If the state has a new leader epoch, all
        replicas in its ISR count as fully caught up at ``now_ms``.
        """
        if state.leader_epoch > self.state.leader_epoch:
            self.epoch_start_offset = end_offset
            for replica, follower in self.followers.items():
                follower.caught_up_ms = now_ms if replica in state.isr else NEVER
                follower.leader_end_offset = end_offset
                follower.fetched_ms = follower.caught_up_ms
        self.end_offset = end_offset
        self.state = state
        self.followers = {
            replica: self.followers.get(replica)
            or Follower(now_ms if replica in state.isr else NEVER)
            for replica in state.replicas
            if replica != self.node_id
        }
        self._settled()
        self._note_out(now_ms)
        return self._step(now_ms)

    # -- acks=all

    @property
    def min_isr(self) -> int:
        """The required number of in-sync replicas: `min.insync.replicas`, but at most the number of
        replicas."""
        return min(self.rules.min_isr, len(self.followers) + 1)

    def acks_all_error(self) -> int:
        """The error code for Produce with acks=all: an error if too few replicas are in sync,
        otherwise 0."""
        return NOT_ENOUGH_REPLICAS if len(self.state.isr) < self.min_isr else NONE

    # -- the rules

    def _step(self, now_ms: int, wanted: WantedIsr | None = None) -> Step:
        """Raises the high watermark as far as the in-sync replicas permit. Returns the step that
        contains the high watermark and ``wanted``."""
        if len(self.state.isr) >= self.min_isr:
            reached, lag_ms = self.end_offset, self.rules.lag_time_max_ms
            for replica, follower in self.followers.items():
                if follower.end_offset < reached and (
                    replica in self.maximal_isr
                    or (
                        follower.is_caught_up(self.end_offset, now_ms, lag_ms)
                        and self.rules.is_alive(replica)
                    )
                ):
                    reached = follower.end_offset
            if reached > self.high_watermark:
                self.high_watermark = reached
                self.waits_since_ms = NEVER
        if self.high_watermark >= self.end_offset:
            self.waits_since_ms = NEVER
        elif self.waits_since_ms == NEVER:
            self.waits_since_ms = now_ms
        return Step(self.high_watermark, wanted)

    def _expanded(self, replica_id: int, offset: int) -> WantedIsr | None:
        if offset < max(self.high_watermark, self.epoch_start_offset):
            return None
        if not self.rules.is_alive(replica_id):
            return None
        return self._ask((*self.state.isr, replica_id))

    def _ask(self, isr: tuple[int, ...]) -> WantedIsr:
        self.pending = WantedIsr(isr, self.state.partition_epoch)
        self.maximal_isr = frozenset(self.state.isr) | frozenset(isr)
        return self.pending

    def _note_out(self, now_ms: int) -> None:
        self.out_since_ms = {
            replica: self.out_since_ms.get(replica, now_ms)
            for replica in self.state.replicas
            if replica not in self.state.isr
        }

    def _settled(self) -> None:
        self.pending = None
        self.maximal_isr = frozenset(self.state.isr)
