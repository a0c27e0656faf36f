"""The texts of a finding: the sentence, the advice, and a command to copy.

Sentences contain times in UTC with their zone, partitions, and members with their hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from verdicts.commands import command, word
from verdicts.facts import EMPTY, SHARE, GroupFacts, MemberFacts, PartitionFacts
from verdicts.findings import Finding, Mark
from verdicts.flapping_words import flapping, helps_static, restarts, what_helps
from verdicts.names import Verdict
from verdicts.refused_words import refused
from verdicts.spelling import (
    counted,
    instant,
    named,
    plain_host,
    ranges,
    reads_nothing,
    since,
    span,
    verb,
)
from verdicts.streams_rules import streams_words

_NAMED_TOPICS = 3
_OF_SHARE_GROUPS = (Verdict.STALLED, Verdict.STUCK_RECORD, Verdict.LOCKS_EXPIRE)
_NEEDS_STOP = "stop all consumers of the group before a reset"


def finding(mark: Mark, facts: GroupFacts) -> Finding:
    """Returns the finding for a mark: the fields of the mark, and the texts."""
    if facts.share is not None and mark.verdict in _OF_SHARE_GROUPS:
        from verdicts.share_rules import share_words

        sentence, advice, command = share_words(mark, facts)
    else:
        sentence, advice, command = _WORDS[mark.verdict](mark, facts)
    member = _member(mark, facts)
    client = member or (mark.refused[0] if mark.refused else None)
    first = mark.partitions[0] if mark.partitions else None
    return Finding(
        verdict=mark.verdict,
        since_ms=mark.since_ms,
        topic=None if first is None else first.topic,
        partition=None if first is None else first.partition,
        member=None if member is None else member.member,
        instance=None if member is None else member.instance,
        client=None if client is None else client.client,
        host=None if client is None else client.host,
        sentence=sentence,
        advice=advice,
        command=command,
    )


def nothing_wrong(facts: GroupFacts) -> Finding:
    """Returns the finding of a group with verdict OK. It contains the number of unread records."""
    owned = [each for each in facts.partitions if each.owner is not None]
    read = owned or facts.partitions
    unread = sum([each.unread or 0 for each in read])
    if unread:
        sentence = "1 unread record, not overdue"
        if unread > 1:
            sentence = f"{unread:,} unread records, none of them overdue"
    elif read or facts.all_read:
        read_all = counted(len(read) or facts.all_read, "partition")
        sentence = f"all records of {read_all} are read"
    elif facts.protocol_type == SHARE:
        sentence = "a share group, which has no committed offsets"
    else:
        sentence = "the group has not committed any offset yet"
    if facts.state == EMPTY:
        sentence += "; the group has no members"
    no_details = (None, None, None, None, None, None, None)
    return Finding(Verdict.OK, *no_details, sentence, "", None)


# ------------------------------------------------------------------------------- each verdict


_Words = tuple[str, str, str | None]


def _out_of_range(mark: Mark, facts: GroupFacts) -> _Words:
    [each] = mark.partitions
    place = spelled(mark.partitions)
    if each.above:
        by = ""
        if mark.since_ms is not None:
            by = f"; the offset was committed at {instant(mark.since_ms)}"
        sentence = (
            f"the committed offset of {place} is {each.committed}, {counted(each.above, 'record')}"
            f" above its log end offset {each.log_end}{by}"
        )
        advice = (
            "the topic was recreated, or its log was truncated; choose where the group continues:"
            " --to-earliest reads all records of the log, --to-latest skips them"
        )
        target = "--to-earliest"
    else:
        sentence = (
            f"the committed offset of {place} is {each.committed}, below its log start offset"
            f" {each.log_start}: {counted(each.lost, 'record')} {verb(each.lost, 'was', 'were')}"
            f" deleted before the group read {verb(each.lost, 'it', 'them')}"
        )
        advice = f"check the retention of {each.topic}, and reset the offset to the log start"
        target = "--to-earliest"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns the partition"
    if facts.members:
        advice += f"; {_NEEDS_STOP}"
    return sentence, advice, command("groups reset", facts.group, f"--topic {place}", target)


_OMITS = {"sync": "sync", "revoke": "give up its partitions"}
"""By phase of a rebalance: the action that an awaited member has not taken yet. In a phase that is
not listed, the action is to rejoin."""


def _blocked(mark: Mark, facts: GroupFacts) -> _Words:
    awaits = facts.awaits
    assert awaits is not None
    until = "" if awaits.until_ms is None else f" (until {instant(awaits.until_ms)} at the latest)"
    member = _member(mark, facts)
    known = facts.member(mark.member_id)
    who = mark.member_id if member is None else named(member)
    sentence = f"a rebalance has been waiting for {who}{since(mark.since_ms)}{until}: "
    if known is None:
        sentence += "the member received its member id but has not joined with that id"
    else:
        heard = known
        if until:  # the deadline already covers the member's session
            heard = known._replace(session_timeout_ms=None, session_left_ms=None)
        sentence += _sign(heard, _OMITS.get(awaits.phase, "rejoin"))
        sentence += restarts(known, facts)
    if len(awaits.members) > 1:
        sentence += f" (one of {len(awaits.members)} awaited members)"
    sentence += reads_nothing(facts)
    if known is not None and known.closed_for_ms is not None:
        advice = f"{_ENDED}; the other members continue when this member's session expires"
        return sentence, advice, command("groups why", facts.group)
    if known is None:  # only members can be evicted
        advice = (
            "no action is needed: the coordinator removes the member id after the session timeout"
        )
        return sentence, advice, command("groups why", facts.group)
    process = "the member heartbeats but does not poll: take a thread dump"
    if not known.is_heard:
        process = "check whether the member's process is running and reaches the broker"
    advice = f"{process}; evict the member to let the other members continue"
    return sentence, advice, _evict(facts, known, mark.member_id)


_ENDED = "the member's process exited, or the network failed: check the member's log"


def _held_back(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    hold = first.hold
    assert hold is not None
    unread = sum([each.unread or 0 for each in mark.partitions])
    are = verb(len(mark.partitions), "is", "are")
    where = f"at offset {hold.offset}"
    if len(mark.partitions) > 1:
        where = f"({spelled([first])} {where})"
    producer = f"producer {hold.producer_id}, epoch {hold.producer_epoch}"
    what = f"a hanging transaction of {producer} (no transactional id owns it)"
    if hold.is_elsewhere:
        what = f"a transaction of {producer} (another broker may coordinate its transactional id)"
    if hold.transactional_id is not None:
        what = f"transaction {hold.transactional_id!r} ({producer})"
        what += f" of client {hold.client!r}" if hold.client else ""
        what += f" on {plain_host(hold.host)}" if hold.host else ""
    sentence = (
        f"{spelled(mark.partitions)} {are} blocked {where} by {what}, open since"
        f" {instant(hold.since_ms)}; {counted(unread, 'record')} {verb(unread, 'waits', 'wait')}"
        " for the end of the transaction"
    )
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns {_partitions(mark.partitions)}"
    if hold.transactional_id is None and hold.is_elsewhere:
        advice = (
            "the transaction ends at its timeout, unless it is hanging; it is hanging if this"
            " command lists it"
        )
        return sentence, advice, command("transactions hanging", [])
    if hold.transactional_id is None:
        advice = (
            "only an operator can end the transaction: make sure that its producer is stopped, then"
            " abort the transaction"
        )
        place = f"{first.topic}:{first.partition}"
        start = f"--start-offset {hold.offset}"
        return sentence, advice, command("transactions abort", [], f"--topic {word(place)}", start)
    advice = (
        "check what the producer is doing; `muster transactions abort` aborts the transaction now"
    )
    if hold.ends_ms is not None:
        advice += f", otherwise the coordinator aborts it soon after {instant(hold.ends_ms)}"
    return sentence, advice, command("transactions why", hold.transactional_id)


def _stalled(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    unread = sum([each.unread or 0 for each in mark.partitions])
    places = spelled(mark.partitions)
    member = _member(mark, facts)
    lies = f"{counted(unread, 'unread record')} {verb(unread, 'waits', 'wait')} in {places}"
    stands = _stands(first, spelled([first]) if len(mark.partitions) > 1 else "the partition")
    if member is None:
        sentence = f"{lies}; {stands}, though a client that is not a member keeps committing"
        advice = "find the client that commits for this group: it is running but does not read"
        return sentence, advice, command("groups describe", facts.group)
    sentence = f"{lies}; {stands}; {named(member)} owns {_partitions(mark.partitions)}"
    sentence += _alive(member, first)
    if mark.returned is not None:
        sentence += restarts(member, facts)
        ways = mark.returned.ways
        advice = helps_static(ways)
        if member.instance is None:
            advice = what_helps(ways, facts.protocol_type)
        return sentence, advice, command("groups why", facts.group)
    if member.closed_for_ms is not None:
        sentence += restarts(member, facts)
        advice = f"{_ENDED}; when the member's session expires, other members get its partitions"
        return sentence, advice, command("groups why", facts.group)
    advice = (
        "take a thread dump of the member's process and check its log; evict the member to move its"
        " partitions to other members"
    )
    return sentence, advice, _evict(facts, member, mark.member_id)


def _stuck_record(mark: Mark, facts: GroupFacts) -> _Words:
    [each] = mark.partitions
    unread = counted(each.unread or 0, "unread record")
    stands = _stands(each, spelled(mark.partitions))
    sentence = f"{stands} with {unread}, while other partitions of {each.topic} advance"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns the partition"
    offset = each.log_start or 0
    if each.committed is not None:
        offset = max(each.committed, offset)
    advice = (
        f"read the record at offset {offset}: the consumer probably can't process it; fix the"
        f" consumer, or skip the record: commit offset {offset + 1}; {_NEEDS_STOP}"
    )
    look = f"--offset {offset} --max 1"
    return sentence, advice, command("consume", f"{each.topic}:{each.partition}", look)


def _abandoned(mark: Mark, facts: GroupFacts) -> _Words:
    unread = sum([each.unread or 0 for each in mark.partitions])
    sentence = (
        f"the group has no members, and {counted(unread, 'unread record')}"
        f" {verb(unread, 'has', 'have')} waited in {spelled(mark.partitions)}{since(mark.since_ms)}"
    )
    advice = "start the group's consumers again; if the group is not needed any more, let it expire"
    return sentence, advice, command("groups why", facts.group)


def _lagging(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    unread = sum([each.unread or 0 for each in mark.partitions])
    sentence = f"{spelled(mark.partitions)} {verb(len(mark.partitions), 'has', 'have')} a lag of"
    sentence += f" {counted(unread, 'record')}"
    if mark.since_ms is not None:
        where = "" if len(mark.partitions) == 1 else f", in {spelled([first])}"
        sentence += f"; the oldest is from {instant(mark.since_ms)}{where}"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns {_partitions(mark.partitions)}"
    if facts.state == EMPTY:
        sentence += "; the group has no members"
        advice = (
            "start the group's consumers again; consumers that use assign() may still be running,"
            " because they are never members"
        )
    else:
        advice = (
            "check whether the lag falls; if it grows, producers write faster than the group reads:"
            " add members, at most one per partition"
        )
    return sentence, advice, command("groups lag", facts.group)


_WORDS: dict[Verdict, Callable[[Mark, GroupFacts], _Words]] = {
    Verdict.OUT_OF_RANGE: _out_of_range,
    Verdict.BLOCKED: _blocked,
    Verdict.REFUSED: refused,
    Verdict.NOT_READY: streams_words,
    Verdict.HELD_BACK: _held_back,
    Verdict.STALLED: _stalled,
    Verdict.STUCK_RECORD: _stuck_record,
    Verdict.FLAPPING: lambda mark, facts: flapping(mark, facts, _member(mark, facts)),
    Verdict.ABANDONED: _abandoned,
    Verdict.LAGGING: _lagging,
}


# ------------------------------------------------------------------------------------ members


def _member(mark: Mark, facts: GroupFacts) -> MemberFacts | None:
    """Returns the member whose id ``mark`` has; None if ``mark`` has no member id. If the member
    has left the group, only its ids and its client are known."""
    if mark.member_id is None:
        return None
    found = facts.member(mark.member_id)
    if found is not None:
        return found
    if (fenced := mark.fenced) is not None:
        return MemberFacts(mark.member_id, fenced.instance, fenced.client, fenced.host)
    returned = mark.returned
    if returned is None:
        return MemberFacts(mark.member_id)
    return MemberFacts(mark.member_id, returned.instance, returned.client, returned.host)


def _sign(member: MemberFacts, omits: str) -> str:
    """Returns a clause about a member for which the group waits. The clause has the time since the
    member's connection closed or since its last request. ``omits`` completes "the member does not
    ..."."""
    if member.closed_for_ms is not None:
        closed = f"the member's connection closed {span(member.closed_for_ms)} ago"
        return closed + _session_left(member)
    silent_ms = member.silent_ms
    if silent_ms is None:
        return f"the member does not {omits}"
    if member.is_heard:
        return f"the member still heartbeats (last {span(silent_ms)} ago) but does not {omits}"
    return _silent(member, silent_ms)


def _alive(member: MemberFacts, first: PartitionFacts) -> str:
    """Returns the last part of a sentence about a stalled member: for example, that its connection
    closed, or when it sent its last heartbeat."""
    if member.closed_for_ms is not None:
        closed = f"; the member's connection closed {span(member.closed_for_ms)} ago"
        return closed + _session_left(member)
    silent_ms = member.silent_ms
    again = first.committed_ms is not None and first.stands_since_ms is not None
    if again and (first.committed_ms or 0) > (first.stands_since_ms or 0):
        return "; the member keeps committing the same offset"
    if silent_ms is None:
        return "; the member does not read"
    if member.is_heard:
        return f"; the member is alive (last heartbeat {span(silent_ms)} ago)"
    return f"; {_silent(member, silent_ms)}"


def _silent(member: MemberFacts, silent_ms: int) -> str:
    heard = f"the member has sent no heartbeat for {span(silent_ms)}"
    if member.session_timeout_ms is None:
        return heard
    left_ms = member.session_timeout_ms - silent_ms
    return f"{heard}, and its session expires in {span(left_ms)}"


def _session_left(member: MemberFacts) -> str:
    left_ms = member.session_left_ms
    return "" if left_ms is None else f", and its session expires in {span(left_ms)}"


def _evict(facts: GroupFacts, member: MemberFacts | None, member_id: str | None) -> str:
    if member is not None and member.instance is not None:
        instance = f"--instance={word(member.instance)}"
        return command("groups evict", facts.group, instance)
    return command("groups evict", [facts.group, member_id or ""])


# ------------------------------------------------------------------------------- partitions


def spelled(partitions: Iterable[PartitionFacts]) -> str:
    """Returns partitions in the syntax of commands: ``orders:0-1,5``."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    listed = [f"{topic}:{ranges(numbers)}" for topic, numbers in sorted(topics.items())]
    more = len(listed) - _NAMED_TOPICS
    if more > 0:
        return f"{' '.join(listed[:_NAMED_TOPICS])} and {counted(more, 'more topic')}"
    return " ".join(listed)


def _stands(each: PartitionFacts, subject: str) -> str:
    """Returns a clause with the offset at which a partition is stuck, and the time since which it
    is stuck."""
    at = since(each.stands_since_ms)
    if each.committed is None:
        return f"{subject} has had unread records{at} and has no committed offset"
    return f"{subject} has been stuck at offset {each.committed}{at}"


def _partitions(partitions: Sequence[PartitionFacts]) -> str:
    return verb(len(partitions), "the partition", "the partitions")
