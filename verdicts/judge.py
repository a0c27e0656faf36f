"""The judge, which computes the verdict of a group, the verdicts of its partitions, and the
findings.

The judge is pure and quick. Its rules return marks, and a mark becomes a `Finding` with texts only
when a caller requests it. docs/use/verdicts.md lists the rules in one table, which a test compares
with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from verdicts.facts import (
    EMPTY,
    STABLE,
    GroupFacts,
    PartitionFacts,
    RefusedFacts,
    ReturnFacts,
    StreakFacts,
)
from verdicts.findings import Finding, Mark
from verdicts.flapping_words import is_restart
from verdicts.names import Verdict
from verdicts.others import Others
from verdicts.streams_rules import streams_marks
from verdicts.thresholds import Thresholds
from verdicts.wording import finding, nothing_wrong

NEEDS_HISTORY = (
    Verdict.BLOCKED,
    Verdict.REFUSED,
    Verdict.HELD_BACK,
    Verdict.STALLED,
    Verdict.STUCK_RECORD,
    Verdict.LOCKS_EXPIRE,
    Verdict.FLAPPING,
    Verdict.ABANDONED,
)
"""The verdicts that need the history of a group. Clients of an Apache Kafka broker cannot read this
history."""

_PHASES = ("join", "sync", "revoke")

Place = tuple[str, int]


class Judgement:
    """The problems of a group, the worst first."""

    def __init__(self, facts: GroupFacts, marks: Iterable[Mark]) -> None:
        self.facts = facts
        self.marks: Sequence[Mark] = sorted(marks, key=_worst_first)
        """The problems of the group, the worst first."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the group's worst problem; OK without a problem."""
        return self.marks[0].verdict if self.marks else Verdict.OK

    @cached_property
    def worst(self) -> Finding:
        """The finding of the worst problem, or a summary if the group has no problem."""
        if not self.marks:
            return nothing_wrong(self.facts)
        return finding(self.marks[0], self.facts)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self.first(len(self.marks)))

    def first(self, count: int) -> Iterator[Finding]:
        for mark in islice(self.marks, count):
            yield finding(mark, self.facts)

    def of_partition(self, topic: str, partition: int) -> Verdict:
        return self._of_partitions.get((topic, partition), Verdict.OK)

    @cached_property
    def _of_partitions(self) -> Mapping[Place, Verdict]:
        found: dict[Place, Verdict] = {}
        for mark in self.marks:
            for each in mark.partitions:
                found.setdefault((each.topic, each.partition), mark.verdict)
        return found


def judge(facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> Judgement:
    rules = _Rules(facts, thresholds, now_ms)
    facts = facts._replace(reads_nothing_since_ms=rules.reads_nothing_since())
    marks = [*rules.out_of_range(), *rules.blocked(), *rules.refused(), *rules.flapping()]
    marks += [*rules.reading(), *streams_marks(facts, thresholds, now_ms)]
    if facts.share is not None:
        from verdicts.share_rules import share_marks  # most brokers have no share groups

        marks += share_marks(facts, thresholds, now_ms)
    return Judgement(facts, marks)


def _worst_first(mark: Mark) -> tuple[int, int, str, int]:
    """Returns a key that sorts marks with the worst first: by verdict, and for the same verdict by
    the number of affected records (OUT_OF_RANGE) or by age (all other verdicts)."""
    first = mark.partitions[0] if mark.partitions else None
    size = 0
    if mark.verdict is Verdict.OUT_OF_RANGE and first is not None:
        size = -(first.lost or first.above)
    elif mark.since_ms is not None:
        size = mark.since_ms
    place = ("", 0) if first is None else (first.topic, first.partition)
    return (mark.verdict.rank, size, *place)


class _Rules:
    """The rules, applied to the facts of one group."""

    def __init__(self, facts: GroupFacts, thresholds: Thresholds, now_ms: int) -> None:
        self.facts = facts
        self.thresholds = thresholds
        self.now_ms = now_ms

    def _for(self, since_ms: int) -> int:
        return max(0, self.now_ms - since_ms)

    # -- offsets outside their log

    def out_of_range(self) -> Iterator[Mark]:
        """Yields a mark for each partition whose committed offset is outside its log."""
        for each in self.facts.partitions:
            if each.above:
                yield Mark(Verdict.OUT_OF_RANGE, each.committed_ms, (each,), each.owner)
            elif each.lost:
                yield Mark(Verdict.OUT_OF_RANGE, None, (each,), each.owner)

    # -- rebalances

    def blocked(self) -> Iterator[Mark]:
        """Yields a mark for each member for which a rebalance has waited too long."""
        awaits, since_ms = self.facts.awaits, self.facts.state_since_ms
        if awaits is None or since_ms is None or awaits.phase not in _PHASES:
            return
        if self._for(self.facts.counts_from_ms or since_ms) >= self.thresholds.blocked_ms:
            for member in awaits.members:
                yield Mark(Verdict.BLOCKED, since_ms, (), member)

    def refused(self) -> Iterator[Mark]:
        """Yields a mark for each error with which the coordinator rejects JoinGroup requests."""
        by_error: dict[str, list[RefusedFacts]] = {}
        for each in self.facts.refused or ():
            if self._for(each.last_ms) <= self.thresholds.refused_ms:
                by_error.setdefault(each.error, []).append(each)
        for found in by_error.values():
            found.sort(key=lambda each: -each.last_ms)
            since_ms = min([each.since_ms for each in found])
            yield Mark(Verdict.REFUSED, since_ms, (), None, refused=tuple(found))

    def flapping(self) -> Iterator[Mark]:
        """Yields a mark for each client that returns too often. Without such clients, yields one
        mark if the group rebalances too often."""
        found = False
        for fenced in self.facts.fenced or ():
            recent = self._recent(fenced.at_ms)
            if len(recent) >= self.thresholds.flapping_returns:
                found = True
                times, since_ms = _counted(recent, fenced.streak)
                member = fenced.member
                yield Mark(Verdict.FLAPPING, since_ms, (), member, times=times, fenced=fenced)
        for each, recent in self._returned_often:
            found = True
            times, since_ms = _counted(recent, each.streak)
            yield Mark(Verdict.FLAPPING, since_ms, (), each.member, each, times)
        recent = self._recent(self.facts.rebalances_ms or ())
        if not found and len(recent) >= self.thresholds.flapping_rebalances:
            times, since_ms = _counted(recent, self.facts.rebalances_streak)
            yield Mark(Verdict.FLAPPING, since_ms, (), None, times=times)

    @cached_property
    def _returned_often(self) -> Sequence[tuple[ReturnFacts, list[int]]]:
        """Returns the clients that return too often, each with the times of its recent returns."""
        found = [(each, self._recent(each.at_ms)) for each in self.facts.returns or ()]
        return [each for each in found if len(each[1]) >= self.thresholds.flapping_returns]

    @cached_property
    def _restarting(self) -> Mapping[str | None, ReturnFacts]:
        """Returns, by member id, the clients that return too often because their process
        restarts."""
        return {each.member: each for each, _ in self._returned_often if is_restart(each.ways)}

    def _recent(self, at_ms: Sequence[int]) -> list[int]:
        return [each for each in at_ms if self._for(each) <= self.thresholds.flapping_ms]

    # -- reading

    def reads_nothing_since(self) -> int | None:
        """Returns the time since which no member has made progress, although the group has unread
        records; None if no such time is known, or if it is less than ``stalled_ms`` ago."""
        if not self.facts.members:
            return None
        stood = []
        for each in self.facts.partitions:
            if each.unread and not each.above and each.hold is None and self._concerns(each):
                if each.stands_since_ms is None:
                    return None
                stood.append(each.stands_since_ms)
        if not stood:
            return None
        moved = [each.moved_ms for each in self.facts.partitions if each.moved_ms is not None]
        since_ms = max([min(stood), *moved])
        return since_ms if self._for(since_ms) >= self.thresholds.stalled_ms else None

    def reading(self) -> Iterator[Mark]:
        """Yields the marks about unread records and about members that do not read them."""
        behind = [each for each in self.facts.partitions if each.unread and not each.above]
        if self._has_clients():
            held = [each for each in behind if each.hold is not None]
            if held:
                behind = [each for each in behind if each.hold is None]
                yield from self._held_back(held)
        if not behind:
            return
        if self.facts.state == STABLE:
            yield from self._of_owners([each for each in behind if self._concerns(each)])
        elif self.facts.state != EMPTY or self.facts.members:
            yield from self._lagging([each for each in behind if self._concerns(each)])
        elif self._has_recent_non_member_commit():
            yield from self._of_owners(behind)
        elif (since_ms := self._abandoned_since(behind)) is not None:
            behind.sort(key=lambda each: -(each.unread or 0))
            yield Mark(Verdict.ABANDONED, since_ms, tuple(behind), None)
        else:
            yield from self._lagging(behind)

    def _has_clients(self) -> bool:
        """Returns True if the group has members, or if a client that calls assign() commits."""
        return bool(self.facts.members) or self._has_recent_non_member_commit()

    def _held_back(self, held: Sequence[PartitionFacts]) -> Iterator[Mark]:
        """Yields a mark with verdict HELD_BACK for each transaction that has blocked readers for at
        least `held_back_ms`."""
        by_producer: dict[int, list[PartitionFacts]] = {}
        for each in held:
            if each.hold is not None:
                by_producer.setdefault(each.hold.producer_id, []).append(each)
        for found in by_producer.values():
            found.sort(key=_waits_since)
            since_ms = _waits_since(found[0])
            if self._for(since_ms) >= self.thresholds.held_back_ms:
                yield Mark(Verdict.HELD_BACK, since_ms, tuple(found), found[0].owner)

    def _concerns(self, each: PartitionFacts) -> bool:
        """Returns True if the group should read the partition. Its unread records then count as
        lag.

        A partition that the group has stopped reading does not count: its lag grows forever.
        """
        if each.owner is not None:
            return self._may_be_read(each)
        if self.facts.subscribed is not None:
            return each.topic in self.facts.subscribed
        return not self._have_commits

    def _may_be_read(self, each: PartitionFacts) -> bool:
        """Returns True if the unread records of a partition with an owner count as lag.

        They do not count if three conditions are met: the partition has no commit and did not grow,
        and its owner has committed in another partition. Such an owner may have started at the log
        end (auto.offset.reset=latest).
        """
        if each.committed is not None or each.has_grown:
            return True
        return not self._have_commits[each.owner]

    @cached_property
    def _have_commits(self) -> Mapping[str | None, bool]:
        """Returns for each owner whether it has committed for at least one of its partitions."""
        found: dict[str | None, bool] = {}
        for each in self.facts.partitions:
            if each.owner is not None:
                found[each.owner] = found.get(each.owner, False) or each.committed is not None
        return found

    def _has_recent_non_member_commit(self) -> bool:
        if self.facts.protocol_type:
            return False
        stamps = [each.committed_ms for each in self.facts.partitions]
        return any(
            stamp is not None and self._for(stamp) < self.thresholds.abandoned_ms
            for stamp in stamps
        )

    def _abandoned_since(self, behind: Sequence[PartitionFacts]) -> int | None:
        """Returns the time since which no client has made progress. Returns None if this time is
        unknown, or less than ``abandoned_ms`` ago."""
        moved = [each.moved_ms for each in self.facts.partitions if each.moved_ms is not None]
        stood = [each.stands_since_ms for each in behind if each.stands_since_ms is not None]
        if not stood:  # read once over the wire: the members may have left a moment ago
            return None
        since_ms = max(self.facts.counts_from_ms or 0, min(stood), *moved)
        return since_ms if self._for(since_ms) >= self.thresholds.abandoned_ms else None

    def _of_owners(self, behind: Sequence[PartitionFacts]) -> Iterator[Mark]:
        """Yields the marks of partitions with unread records: one STUCK_RECORD mark for each
        partition, and one STALLED mark and one LAGGING mark for each owner."""
        stalled: dict[str | None, list[PartitionFacts]] = {}
        left: list[PartitionFacts] = []
        for each in behind:
            verdict = self._of_standing(each)
            if verdict is Verdict.STALLED:
                stalled.setdefault(each.owner, []).append(each)
            elif verdict is Verdict.STUCK_RECORD:
                yield Mark(verdict, each.stands_since_ms, (each,), each.owner)
            else:
                left.append(each)
        for owner, found in stalled.items():
            found.sort(key=lambda each: each.stands_since_ms or 0)
            since_ms, returned = found[0].stands_since_ms, self._restarting.get(owner)
            yield Mark(Verdict.STALLED, since_ms, tuple(found), owner, returned)
        yield from self._lagging(left)

    def _of_standing(self, each: PartitionFacts) -> Verdict:
        """Returns STALLED or STUCK_RECORD if the partition is stuck, or else OK."""
        if each.owner is None and self.facts.state != EMPTY:
            return Verdict.OK
        thresholds = self.thresholds
        if not self._stands(each, min(thresholds.stuck_record_ms, thresholds.stalled_ms)):
            return Verdict.OK
        if each.owner is None:
            return self._of_unowned(each)
        since_ms = each.stands_since_ms or 0
        place = (each.owner, each.topic)
        others = self._others
        is_passed = others.read_to.get(place, 0) > since_ms
        is_retried = self._is_committed_again(each) and others.unread[place] == 1
        if is_passed or (is_retried and others.moved.get(each.topic, 0) > since_ms):
            is_due = self._stands(each, thresholds.stuck_record_ms)
            return Verdict.STUCK_RECORD if is_due else Verdict.OK
        if others.catching_up.get(each.owner, 0) > since_ms:
            return Verdict.OK  # the owner works through a backlog, partition by partition
        return Verdict.STALLED if self._stands(each, thresholds.stalled_ms) else Verdict.OK

    def _of_unowned(self, each: PartitionFacts) -> Verdict:
        """Returns the verdict of a partition without an owner whose committed offset has not moved.
        Either an operator set the offset once, or a client that calls assign() commits the same
        offset repeatedly."""
        stalled_ms, stuck_record_ms = self.thresholds.stalled_ms, self.thresholds.stuck_record_ms
        since_ms = each.stands_since_ms or 0
        read_to_ms = self._others.read_to.get((None, each.topic), 0)
        if read_to_ms > since_ms + stuck_record_ms and self._stands(each, stuck_record_ms):
            return Verdict.STUCK_RECORD
        goes_on = self._is_committed_again(each) and self._stands(each, stalled_ms)
        return Verdict.STALLED if goes_on else Verdict.OK

    @cached_property
    def _others(self) -> Others:
        return Others(
            self.facts.partitions,
            lambda each: self._stands(each, self.thresholds.stuck_record_ms),
            self.now_ms - self.thresholds.stalled_ms,
        )

    def _stands(self, each: PartitionFacts, at_least_ms: int) -> bool:
        """Returns True if the partition has been stuck for ``at_least_ms`` under its current
        owner."""
        if each.stands_since_ms is None:
            return False
        since_ms = max(each.stands_since_ms, self.facts.counts_from_ms or 0)
        return self._for(since_ms) >= at_least_ms

    def _is_committed_again(self, each: PartitionFacts) -> bool:
        """Returns True if the owner still commits the offset at which the partition is stuck."""
        if each.committed_ms is None or each.stands_since_ms is None:
            return False
        is_recent = self._for(each.committed_ms) < self.thresholds.stalled_ms
        return is_recent and each.committed_ms > each.stands_since_ms

    def _lagging(self, behind: Iterable[PartitionFacts]) -> Iterator[Mark]:
        old: dict[str | None, list[PartitionFacts]] = {}
        for each in behind:
            since_ms = each.unread_since_ms
            if since_ms is not None and self._for(since_ms) > self.thresholds.lagging_ms:
                old.setdefault(each.owner, []).append(each)
        for owner, found in old.items():
            found.sort(key=lambda each: each.unread_since_ms or 0)
            yield Mark(Verdict.LAGGING, found[0].unread_since_ms, tuple(found), owner)


def _counted(recent: Sequence[int], streak: StreakFacts | None) -> tuple[int, int]:
    """Returns the number of events and the time of the first event. ``recent`` has the times of the
    newest events only. If ``streak`` has counted more events, returns ``streak``."""
    if streak is not None and streak.times > len(recent):
        return streak
    return len(recent), recent[0]


def _waits_since(each: PartitionFacts) -> int:
    """Returns the time since which a group has waited for an open transaction: the start of the
    transaction, or the last change of the committed offset, whichever is later."""
    opened_ms = 0 if each.hold is None else each.hold.since_ms
    return max(opened_ms, each.stands_since_ms or 0)
