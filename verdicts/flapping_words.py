"""The texts of verdict FLAPPING: the repeated behaviour of a client, and the advice against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verdicts.commands import command
from verdicts.facts import SHARE, STREAMS, FencedFacts, GroupFacts, MemberFacts, ReturnFacts
from verdicts.findings import Mark
from verdicts.spelling import counted, named, plain_host, reads_nothing, since, span
from verdicts.streams_rules import MISSING_SOURCE_TOPICS, problem_words

_Words = tuple[str, str, str | None]

_STATIC = (
    "give each instance its own group.instance.id: an instance then keeps its partitions if it"
    " returns within the session timeout"
)
_WITHOUT_STATIC_MEMBERS = (STREAMS, SHARE)
"""The types of groups whose clients cannot set group.instance.id (KIP-932, KIP-1071)."""
_MIXED = "has rejoined"
_UNKNOWN = "has left and rejoined"
_DOES: Mapping[str, str] = {
    "restarted": "has restarted",
    "restarted_in_session": "has restarted",
    "left": "has left and rejoined",
    "poll_timed_out": "has left (its poll timeout expired) and rejoined",
    "session_expired": "was removed (session expired) and rejoined",
    "sync_timed_out": "was removed (it sent no SyncGroup in time) and rejoined",
    "join_timed_out": "was removed (it did not rejoin in time) and rejoined",
    "removed": "was removed and rejoined",
}
"""For each way in which a client loses its member id (`coordinator.classic.member_restarts.Way`):
the predicate of a sentence about the client, such as "was removed and rejoined"."""
_BEFORE: Mapping[str, str] = {
    "restarted": "its connection had closed",
    "restarted_in_session": "it had restarted before its session expired",
    "left": "it had left",
    "poll_timed_out": "its poll timeout had expired",
    "session_expired": "its session had expired",
    "sync_timed_out": "it had been removed because it sent no SyncGroup in time",
    "join_timed_out": "it had been removed because its JoinGroup came too late",
    "removed": "it had been removed",
}
_RESTARTS = frozenset({"restarted", "restarted_in_session"})
_ENDS = "check the client's log for the reason why its process exits"
_POLLS = (
    "processing the records of one poll takes longer than max.poll.interval.ms: lower"
    " max.poll.records, or raise max.poll.interval.ms"
)
_HELPS: Mapping[str, str] = {
    "restarted": f"{_ENDS}; {_STATIC}",
    "restarted_in_session": _ENDS,
    "left": (
        "check the client's log for the reason why the client leaves: its process is restarted, it"
        " closes its consumer, or processing the records of one poll takes longer than"
        f" max.poll.interval.ms (raise this setting, or lower max.poll.records); {_STATIC}"
    ),
    "poll_timed_out": _POLLS,
    "session_expired": (
        "the client's connection stayed open, so its process is running: check the process for"
        " pauses (garbage collection, a suspended or overloaded host), or raise session.timeout.ms"
        " above the length of the pauses"
    ),
    "sync_timed_out": (
        "the client's process is running but does not send SyncGroup: take a thread dump; if the"
        " client is slow to poll after a rebalance, raise max.poll.interval.ms"
    ),
    "join_timed_out": f"the client heartbeats but does not rejoin: {_POLLS}",
    "removed": "check the group's journal for the reason why the coordinator removes the member",
}


def flapping(mark: Mark, facts: GroupFacts, member: MemberFacts | None) -> _Words:
    """Returns the sentence, the advice and the command of a FLAPPING mark."""
    why = command("groups why", facts.group)
    if mark.fenced is not None:
        return _fenced(mark, mark.fenced, why)
    returned = mark.returned
    if returned is None:
        sentence = f"the group has rebalanced {counted(mark.times, 'time')}{since(mark.since_ms)}"
        if facts.last_why:
            sentence += f"; last cause: {facts.last_why}"
        sentence += reads_nothing(facts)
        advice = (
            "check which members leave and why; if a member's process keeps running, processing the"
            " records of one poll takes longer than max.poll.interval.ms: raise this setting, or"
            " lower max.poll.records; if the process is restarted, "
        )
        is_static = facts.protocol_type not in _WITHOUT_STATIC_MEMBERS
        advice += _STATIC if is_static else _ENDS
        return _without_tasks((sentence, advice, why), facts)
    assert member is not None
    if returned.instance is not None:
        return _static(mark, returned, member, facts, why)
    if returned.has_new_id:
        sentence = f"the client of {named(member)} {returned_again(returned, mark.times)}"
        sentence += f"{since(mark.since_ms)}, each time with a new member id"
        sentence += _one_by_one(returned.ways) + _alike(returned, facts)
        if member.closed_for_ms is not None:
            sentence += f"; its connection closed {span(member.closed_for_ms)} ago"
        sentence += reads_nothing(facts)
        words = sentence, what_helps(returned.ways, facts.protocol_type), why
        return _without_tasks(words, facts)
    sentence = f"{named(member)} has rejoined {counted(mark.times, 'time')}{since(mark.since_ms)}"
    if returned.why:
        sentence += f"; the last time, the member {returned.why}"
    advice = (
        "each change of a client's subscription rebalances the group: find out why the client keeps"
        " changing its subscription"
    )
    return sentence, advice, why


def _without_tasks(words: _Words, facts: GroupFacts) -> _Words:
    """Returns ``words`` unless the group is a streams group. For a streams group, returns texts
    which say that no instance had a task because topics are missing or unsuitable."""
    if facts.streams is None:
        return words
    problem, advice, todo = problem_words(facts)
    if facts.streams.code == MISSING_SOURCE_TOPICS:
        advice = f"Kafka Streams shuts down an instance whose source topic is missing: {advice}"
    return f"{words[0]}; no instance had a task: {problem}", advice, todo


def _static(
    mark: Mark, returned: ReturnFacts, member: MemberFacts, facts: GroupFacts, why: str
) -> _Words:
    """Returns the texts for a static member that returns repeatedly, before or after its session
    expires."""
    sentence = (
        f"static member {named(member)} {returned_again(returned, mark.times)}"
        f"{since(mark.since_ms)}{_one_by_one(returned.ways)}"
    )
    if {way for way, _ in returned.ways} != {"restarted"}:
        if member.closed_for_ms is not None:
            sentence += f"; its connection closed {span(member.closed_for_ms)} ago"
        return sentence + reads_nothing(facts), helps_static(returned.ways), why
    sentence += ", each time after its session had expired"
    if returned.away_ms is not None:
        sentence += f", the last time {span(returned.away_ms)} after the expiry"
    timeout = ""
    if member.session_timeout_ms is not None:
        timeout = f", now {span(member.session_timeout_ms)},"
    advice = (
        f"{_ENDS}, and raise session.timeout.ms{timeout} above the duration of a restart: the"
        " member then keeps its partitions"
    )
    return sentence, advice, why


def _alike(returned: ReturnFacts, facts: GroupFacts) -> str:
    """Returns a note if several members share the client id and host of the returning client, or
    else ""."""
    who = (returned.client, returned.host)
    alike = [each for each in facts.members if (each.client, each.host) == who]
    living = [each for each in alike if each.closed_for_ms is None]
    if len(living) < 2 or returned.client is None:
        return ""
    return f" ({len(living)} members share client id {returned.client!r})"


def _fenced(mark: Mark, fenced: FencedFacts, why: str) -> _Words:
    one, other = (
        _client(fenced.client, fenced.host),
        _client(fenced.other_client, fenced.other_host),
    )
    sentence = (
        f"group.instance.id {fenced.instance!r} is used by two processes, {one} and {other}: they"
        f" have fenced each other {counted(mark.times, 'time')}{since(mark.since_ms)}"
    )
    advice = (
        "give each process its own group.instance.id; until then only one of the processes reads"
    )
    return sentence, advice, why


def _client(client: str | None, host: str | None) -> str:
    where = f" on {plain_host(host)}" if host else ""
    return f"client {client!r}{where}" if client else f"a client without a client id{where}"


def returned_again(returned: ReturnFacts, times: int) -> str:
    """Returns a text that says what the client did and how often: "has restarted 3 times"."""
    return f"{what_it_did(returned.ways)} {counted(times, 'time')}"


def what_it_did(ways: Sequence[tuple[str, int]]) -> str:
    """Returns text about how a client lost its member ids. ``ways`` has each way with its number of
    occurrences."""
    if not ways:
        return _UNKNOWN
    is_mixed = len(ways) > 1 and not is_restart(ways)
    return _MIXED if is_mixed else _DOES.get(ways[0][0], _UNKNOWN)


def is_restart(ways: Sequence[tuple[str, int]]) -> bool:
    """Returns True if the client lost every earlier member id because its process ended."""
    return bool(ways) and _RESTARTS.issuperset([way for way, _ in ways])


def what_helps(ways: Sequence[tuple[str, int]], protocol_type: str | None = None) -> str:
    """Returns advice for a client that has lost its member ids. ``ways`` lists the reasons, each
    with the number of times it occurred. The advice is against the most frequent reason.

    The advice for streams groups and share groups does not recommend static members, which they do
    not have. It names the group setting with the session timeout.
    """
    most = max(ways, key=lambda each: each[1], default=("left", 0))
    advice = _HELPS.get(most[0], _HELPS["left"])
    if protocol_type not in _WITHOUT_STATIC_MEMBERS:
        return advice
    setting = f"{protocol_type}.session.timeout.ms of the group"
    return advice.removesuffix(f"; {_STATIC}").replace("session.timeout.ms", setting)


def helps_static(ways: Sequence[tuple[str, int]]) -> str:
    """Returns the advice for a client that is a static member. Unlike the advice for other clients,
    it does not recommend group.instance.id."""
    if is_restart(ways) and "restarted" in dict(ways):
        return f"{_ENDS}; raise session.timeout.ms above the duration of a restart"
    return what_helps(ways).removesuffix(f"; {_STATIC}")


def restarts(member: MemberFacts, facts: GroupFacts) -> str:
    """Returns a clause about the number of recent restarts of the member's client, or "" if it is
    unknown."""
    for each in facts.returns or ():
        if each.member == member.member and each.has_new_id and each.streak is not None:
            again = returned_again(each, each.streak.times)
            return f"; its client {again}{since(each.streak.since_ms)}"
    return ""


def _one_by_one(ways: Sequence[tuple[str, int]]) -> str:
    if len(ways) < 2:
        return ""
    most_first = sorted(ways, key=lambda each: -each[1])
    parts = [f"{counted(times, 'time')} {_BEFORE.get(way, way)}" for way, times in most_first]
    return f": {', '.join(parts)}"
