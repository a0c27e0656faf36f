"""A led partition: how far each replica is, who is in sync, and how far the high watermark may go.

| what is learnt | high watermark | in-sync replicas |
|---|---|---|
| a replica fetches at an offset | it may rise | one that has all may be wanted in |
| a replica had all still | | |
| the leader appends | it may rise, where it is alone | |
| time passes | | one that was behind for too long is wanted out |
| the wanted change is written | it may rise | as written |
| it is refused | | as before, or asked for again, or no more is asked for |
| the controller speaks | it may rise | as the controller says |

One change is in flight at a time. Until it is decided the high watermark waits for everybody who is
in sync before it *or* after it: a member that leaves still counts, and so does one that enters
(the maximal ISR, KIP-497). A replica that is about to catch up is waited for too. While fewer than
`min.insync.replicas` are in sync the high watermark stands still, as it does in Kafka since 3.7.
Source: Kafka 3.9 ``Partition.scala``, ``Replica.scala``.
"""

from __future__ import annotations

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
"""Refusals after which the in-sync replicas are those that were, and may be changed again."""
OUTDATED = frozenset(
    (
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID,
        FENCED_LEADER_EPOCH,
        INVALID_UPDATE_VERSION,
        INVALID_REQUEST,
    )
)
"""Refusals of a leader that knows less than others: it waits for the controller."""


class Follower:
    """How far another replica is, as its fetches tell."""

    __slots__ = ("caught_up_ms", "end_offset", "fetched_ms", "leader_end_offset")

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN
        """Its log ends here; UNKNOWN until it has fetched."""
        self.caught_up_ms = caught_up_ms
        """When it had all that the leader had, the last time (monotonic)."""
        self.leader_end_offset = UNKNOWN
        """Where the leader's log ended at its last fetch."""
        self.fetched_ms = NEVER
        """When that was."""

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """It has all below ``offset``."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it is where the leader is, or was so lately."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms


class LedReplicas:
    """The replicas of one partition, as its leader sees them."""

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
        """Where the leader's log ends."""
        self.high_watermark = high_watermark
        self.epoch_start_offset = epoch_start_offset
        """Where the log ended when this broker became leader."""
        self.pending: WantedIsr | None = None
        """The change in flight. After some refusals it stays until the controller speaks."""
        self.maximal_isr = frozenset(state.isr)
        """Who may be in sync, whatever becomes of the change in flight."""
        self.followers = {
            replica: Follower(now_ms if replica in state.isr else NEVER)
            for replica in state.replicas
            if replica != node_id
        }
        self.out_since_ms: dict[int, int] = {}
        """Since when a replica has not been in sync (monotonic), as far as this leader has seen."""
        self._note_out(now_ms)
        self.waits_since_ms = NEVER
        """Since when records wait and the high watermark stands (monotonic); NEVER: none do."""

    # -- what is learnt

    def begun(self, now_ms: int) -> Step:
        """It leads from now on: it may be alone, and then all that it has is committed."""
        return self._step(now_ms)

    def follower_fetched(self, replica_id: int, offset: int, end_offset: int, now_ms: int) -> Step:
        """A replica of the assignment fetches at ``offset``: all below is in its log.

        Raises KeyError for any other.
        """
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
        """A member that has all fetched at that time, and had all still."""
        follower = self.followers.get(replica_id)
        if (
            follower is not None
            and replica_id in self.state.isr
            and follower.end_offset == self.end_offset
            and follower.fetched_ms < fetched_ms
        ):
            follower.fetched(follower.end_offset, self.end_offset, fetched_ms)

    def appended(self, end_offset: int, now_ms: int) -> Step:
        """The leader's log has grown."""
        self.end_offset = end_offset
        return self._step(now_ms)

    def tick(self, now_ms: int) -> Step:
        """Looks for members that are behind; to be called every half of the lag's time.

        What waited for a replica that seemed about to catch up waits no longer.
        """
        wanted = None
        if self.pending is None:
            lag_ms = self.rules.lag_time_max_ms
            behind = {
                replica
                for replica in self.state.isr
                if replica in self.followers
                and not self.followers[replica].is_caught_up(self.end_offset, now_ms, lag_ms)
            }
            if behind:
                # A planned removal frees nobody yet: it may fail (the high watermark waits).
                left = tuple(replica for replica in self.state.isr if replica not in behind)
                wanted = self._ask(left)
        return self._step(now_ms, wanted)

    def isr_written(self, partition_epoch: int, now_ms: int) -> Step:
        """The change in flight stands in ZooKeeper, as this version."""
        pending = self.pending
        if pending is None or partition_epoch <= self.state.partition_epoch:
            return Step(self.high_watermark)
        self.state = self.state._replace(isr=pending.isr, partition_epoch=partition_epoch)
        self._settled()
        self._note_out(now_ms)
        return self._step(now_ms)

    def isr_refused(self, error_code: int) -> Step:
        """The change in flight was refused.

        Where a replica may not join, the members are those that were. Where this broker knows less
        than others (an older version, an older epoch, no such partition) nothing more is asked for
        until the controller speaks. Anything else is no answer, and the same is asked for again.
        """
        if self.pending is None:
            return Step(self.high_watermark)
        if error_code in GIVEN_UP:
            self._settled()
        elif error_code not in OUTDATED:
            return Step(self.high_watermark, self.pending)
        return Step(self.high_watermark)

    def new_state(self, state: PartitionState, end_offset: int, now_ms: int) -> Step:
        """The controller says that this broker leads on; in another leader epoch begins anew.

        A follower keeps its end, and its time: members have theirs from now on.
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

    # -- what a producer is told

    @property
    def min_isr(self) -> int:
        """How many must be in sync; never more than there are replicas."""
        return min(self.rules.min_isr, len(self.followers) + 1)

    def acks_all_error(self) -> int:
        """Why nothing is appended for a producer that waits for all in-sync replicas; 0: it is."""
        return NOT_ENOUGH_REPLICAS if len(self.state.isr) < self.min_isr else NONE

    # -- the rules

    def _step(self, now_ms: int, wanted: WantedIsr | None = None) -> Step:
        """Moves the high watermark as far as it may go."""
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
