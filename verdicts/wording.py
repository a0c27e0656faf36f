"""The words of a finding: its sentence, what to do, and the command to copy.

Sentences name the instant in UTC with its zone, the partition, and the member with its host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from verdicts.commands import command, word
from verdicts.facts import EMPTY, GroupFacts, MemberFacts, PartitionFacts
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

_NAMED_TOPICS = 3
_NEEDS_STOP = "a reset needs all consumers of the group stopped"


def finding(mark: Mark, facts: GroupFacts) -> Finding:
    """A mark in words."""
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
    """That of a group that is OK."""
    owned = [each for each in facts.partitions if each.owner is not None]
    read = owned or facts.partitions
    unread = sum([each.unread or 0 for each in read])
    if unread:
        sentence = f"{counted(unread, 'record')} to read, nothing is late"
    elif read or facts.all_read:
        sentence = f"every record of {counted(len(read) or facts.all_read, 'partition')} is read"
    else:
        sentence = "nothing is committed yet"
    if facts.state == EMPTY:
        sentence += "; the group has no members"
    nobody = (None, None, None, None, None, None, None)
    return Finding(Verdict.OK, *nobody, sentence, "", None)


# ------------------------------------------------------------------------------- each verdict


_Words = tuple[str, str, str | None]


def _out_of_range(mark: Mark, facts: GroupFacts) -> _Words:
    [each] = mark.partitions
    place = spelled(mark.partitions)
    if each.above:
        by = "" if mark.since_ms is None else f" by a commit of {instant(mark.since_ms)}"
        sentence = (
            f"{place} is committed at {each.committed}, {counted(each.above, 'record')} above the"
            f" end of its log at {each.log_end}{by}"
        )
        advice = (
            "the topic was recreated, or its log was truncated; choose where the group goes on:"
            " --to-earliest reads all that is there, --to-latest skips it"
        )
        target = "--to-earliest"
    else:
        sentence = (
            f"{place} is committed at {each.committed}, but its log begins at {each.log_start}:"
            f" {counted(each.lost, 'record')} {verb(each.lost, 'is', 'are')} lost to the group"
        )
        advice = (
            f"they were removed before they were read; check the retention of {each.topic}, and set"
            " the offset to the start"
        )
        target = "--to-earliest"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns it"
    if facts.members:
        advice += f"; {_NEEDS_STOP}"
    return sentence, advice, command("groups reset", facts.group, f"--topic {place}", target)


def _blocked(mark: Mark, facts: GroupFacts) -> _Words:
    awaits = facts.awaits
    assert awaits is not None
    is_sync = awaits.phase == "sync"
    until = "" if awaits.until_ms is None else f" until {instant(awaits.until_ms)} at the latest"
    member = _member(mark, facts)
    known = facts.member(mark.member_id)
    who = mark.member_id if member is None else named(member)
    sentence = f"a rebalance{since(mark.since_ms)} waits for {who}{until}: "
    if known is None:
        sentence += "it was given its id and has not joined with it"
    else:
        heard = known
        if until:  # it counts the sessions in, and one deadline is enough
            heard = known._replace(session_timeout_ms=None, session_left_ms=None)
        sentence += _sign(heard, "sync" if is_sync else "rejoin")
        sentence += restarts(known, facts)
    if len(awaits.members) > 1:
        sentence += f" (one of {len(awaits.members)} that are awaited)"
    sentence += reads_nothing(facts)
    if known is not None and known.closed_for_ms is not None:
        advice = f"{_ENDED}; the others go on when its session ends"
        return sentence, advice, command("groups why", facts.group)
    if known is None:  # what is not a member yet can't be evicted
        advice = "its client went away before it had joined; the group waits no longer than that"
        return sentence, advice, command("groups why", facts.group)
    process = "see what that process does: its poll loop stands"
    if not known.is_heard:
        process = "see whether that process lives and reaches the broker"
    advice = f"{process}; evict it, and the others go on without it"
    return sentence, advice, _evict(facts, known, mark.member_id)


_ENDED = "its process ended, or the network was cut: see its log and why it ends"


def _held_back(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    hold = first.hold
    assert hold is not None
    unread = sum([each.unread or 0 for each in mark.partitions])
    are = verb(len(mark.partitions), "is", "are")
    where = f"at offset {hold.offset}" if len(mark.partitions) == 1 else f"from {spelled([first])}"
    if len(mark.partitions) > 1:
        where += f" at offset {hold.offset} on"
    producer = f"producer {hold.producer_id}, epoch {hold.producer_epoch}"
    what = f"a transaction of {producer}, which no transactional id has open"
    if hold.is_elsewhere:
        what = f"a transaction of {producer}, whose id another broker coordinates"
    if hold.transactional_id is not None:
        what = f"transaction {hold.transactional_id!r} ({producer})"
        what += f" of client {hold.client!r}" if hold.client else ""
        what += f" on {plain_host(hold.host)}" if hold.host else ""
    sentence = (
        f"{spelled(mark.partitions)} {are} held back {where} by {what}, open since"
        f" {instant(hold.since_ms)}; {counted(unread, 'record')} {verb(unread, 'waits', 'wait')}"
        " for its end"
    )
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns {_it(mark.partitions)}"
    if hold.transactional_id is None and hold.is_elsewhere:
        advice = "it ends with its timeout at the latest, unless no id has it; see whether it hangs"
        return sentence, advice, command("transactions hanging", [])
    if hold.transactional_id is None:
        advice = "nobody but an operator ends it: abort it, once its producer is known to be gone"
        place = f"{first.topic}:{first.partition}"
        start = f"--start-offset {hold.offset}"
        return sentence, advice, command("transactions abort", [], f"--topic {word(place)}", start)
    advice = "see what its producer does; `muster transactions abort` ends it"
    if hold.ends_ms is not None:
        advice += f", and else it is aborted soon after {instant(hold.ends_ms)}"
    return sentence, advice, command("transactions why", hold.transactional_id)


def _stalled(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    unread = sum([each.unread or 0 for each in mark.partitions])
    places = spelled(mark.partitions)
    member = _member(mark, facts)
    lies = f"{counted(unread, 'unread record')} {verb(unread, 'waits', 'wait')} in {places}"
    stands = _stands(first, spelled([first]) if len(mark.partitions) > 1 else "it")
    if member is None:
        sentence = f"{lies}; {stands}, though a client that is no member goes on committing"
        advice = "find the client that commits for this group: it lives and reads nothing"
        return sentence, advice, command("groups describe", facts.group)
    sentence = f"{lies}; {stands}; {named(member)} owns {_it(mark.partitions)}"
    sentence += f" and {_alive(member, first)}"
    if mark.returned is not None:
        sentence += restarts(member, facts)
        ways = mark.returned.ways
        advice = what_helps(ways) if member.instance is None else helps_static(ways)
        return sentence, advice, command("groups why", facts.group)
    if member.closed_for_ms is not None:
        sentence += restarts(member, facts)
        advice = f"{_ENDED}; its partitions go to others when its session ends"
        return sentence, advice, command("groups why", facts.group)
    advice = (
        "see what that process does: a thread dump and its log; to give its partitions to others,"
        " evict it"
    )
    return sentence, advice, _evict(facts, member, mark.member_id)


def _stuck_record(mark: Mark, facts: GroupFacts) -> _Words:
    [each] = mark.partitions
    unread = counted(each.unread or 0, "unread record")
    stands = _stands(each, spelled(mark.partitions))
    sentence = f"{stands} with {unread}, while other partitions of {each.topic} move"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns it"
    offset = each.log_start or 0
    if each.committed is not None:
        offset = max(each.committed, offset)
    advice = (
        f"read the record at offset {offset}: it is likely that it can't be processed; fix the"
        f" consumer, or skip the record: commit offset {offset + 1}; {_NEEDS_STOP}"
    )
    look = f"--offset {offset} --max 1"
    return sentence, advice, command("consume", f"{each.topic}:{each.partition}", look)


def _abandoned(mark: Mark, facts: GroupFacts) -> _Words:
    unread = sum([each.unread or 0 for each in mark.partitions])
    sentence = (
        f"nobody is in the group, and {counted(unread, 'unread record')}"
        f" {verb(unread, 'waits', 'wait')} in {spelled(mark.partitions)}{since(mark.since_ms)}"
    )
    advice = "start its consumers again; if nobody needs the group any more, leave it to expire"
    return sentence, advice, command("groups why", facts.group)


def _lagging(mark: Mark, facts: GroupFacts) -> _Words:
    first = mark.partitions[0]
    unread = sum([each.unread or 0 for each in mark.partitions])
    sentence = f"{spelled(mark.partitions)} {verb(len(mark.partitions), 'is', 'are')} behind by"
    sentence += f" {counted(unread, 'record')}"
    if mark.since_ms is not None:
        where = "" if len(mark.partitions) == 1 else f", in {spelled([first])},"
        sentence += f", the oldest{where} from {instant(mark.since_ms)}"
    if (member := _member(mark, facts)) is not None:
        sentence += f"; {named(member)} owns {_it(mark.partitions)}"
    if facts.state == EMPTY:
        sentence += "; the group has no members"
        advice = "see whether its consumers come back, or read without being members"
    else:
        advice = (
            "see whether the lag falls; if it grows, the group reads more slowly than is produced:"
            " add members, up to one a partition"
        )
    return sentence, advice, command("groups lag", facts.group)


_WORDS: dict[Verdict, Callable[[Mark, GroupFacts], _Words]] = {
    Verdict.OUT_OF_RANGE: _out_of_range,
    Verdict.BLOCKED: _blocked,
    Verdict.REFUSED: refused,
    Verdict.HELD_BACK: _held_back,
    Verdict.STALLED: _stalled,
    Verdict.STUCK_RECORD: _stuck_record,
    Verdict.FLAPPING: lambda mark, facts: flapping(mark, facts, _member(mark, facts)),
    Verdict.ABANDONED: _abandoned,
    Verdict.LAGGING: _lagging,
}


# ------------------------------------------------------------------------------------ members


def _member(mark: Mark, facts: GroupFacts) -> MemberFacts | None:
    """Whom a mark is about; a member that is gone is known by its id, and by its client."""
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
    """What is heard of a member that is awaited."""
    if member.closed_for_ms is not None:
        return f"its connection closed {span(member.closed_for_ms)} ago{_session_left(member)}"
    silent_ms = member.silent_ms
    if silent_ms is None:
        return f"it does not {omits}"
    if member.is_heard:
        return f"it still heartbeats, {span(silent_ms)} ago, but does not {omits}"
    return _silent(member, silent_ms)


def _alive(member: MemberFacts, first: PartitionFacts) -> str:
    """What is heard of a member that makes no progress."""
    if member.closed_for_ms is not None:
        return f"its connection closed {span(member.closed_for_ms)} ago{_session_left(member)}"
    silent_ms = member.silent_ms
    again = first.committed_ms is not None and first.stands_since_ms is not None
    if again and (first.committed_ms or 0) > (first.stands_since_ms or 0):
        return "goes on committing the same offset"
    if silent_ms is None:
        return "reads nothing"
    if member.is_heard:
        return f"is alive, heard {span(silent_ms)} ago"
    return f"is silent: {_silent(member, silent_ms)}"


def _silent(member: MemberFacts, silent_ms: int) -> str:
    heard = f"nothing heard for {span(silent_ms)}"
    if member.session_timeout_ms is None:
        return heard
    return f"{heard}, its session ends in {span(member.session_timeout_ms - silent_ms)}"


def _session_left(member: MemberFacts) -> str:
    left_ms = member.session_left_ms
    return "" if left_ms is None else f", its session ends in {span(left_ms)}"


def _evict(facts: GroupFacts, member: MemberFacts | None, member_id: str | None) -> str:
    if member is not None and member.instance is not None:
        instance = f"--instance={word(member.instance)}"
        return command("groups evict", facts.group, instance)
    return command("groups evict", [facts.group, member_id or ""])


# ------------------------------------------------------------------------------- partitions


def spelled(partitions: Iterable[PartitionFacts]) -> str:
    """Partitions as commands take them: ``orders:0-1,5``."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    listed = [f"{topic}:{ranges(numbers)}" for topic, numbers in sorted(topics.items())]
    more = len(listed) - _NAMED_TOPICS
    if more > 0:
        return f"{' '.join(listed[:_NAMED_TOPICS])} and {counted(more, 'more topic')}"
    return " ".join(listed)


def _stands(each: PartitionFacts, subject: str) -> str:
    """Where a partition stands and since when."""
    at = since(each.stands_since_ms)
    if each.committed is None:
        return f"{subject} has had unread records{at} and never a commit"
    return f"{subject} has been stuck at offset {each.committed}{at}"


def _it(partitions: Sequence[PartitionFacts]) -> str:
    return "it" if len(partitions) == 1 else "them"
