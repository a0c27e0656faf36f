"""Collects the facts that depend on a group's type: about members, about the phase in which a group
waits for members, and about missing topics of a streams group."""

from __future__ import annotations

from coordinator.classic import heartbeats
from coordinator.read_only import GroupView, MemberView
from protocol.now import Now
from verdicts.facts import STREAMS, AwaitedFacts, MemberFacts
from verdicts.streams_rules import MISSING_INTERNAL_TOPICS, NOT_READY, StreamsFacts


def member_facts(group: GroupView, member: MemberView, now: Now) -> MemberFacts:
    return MemberFacts(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        heartbeats.silent_ms(member, now),
        heartbeats.is_heard(group, member, now),
        member.session_timeout_ms,
        heartbeats.closed_for_ms(member, now),
        heartbeats.session_left_ms(member, now),
    )


def awaited_facts(group: GroupView, now: Now) -> AwaitedFacts | None:
    """Returns the phase in which the group waits, the end of this phase, and the members for which
    the group waits; None if the group does not wait."""
    waits = group.awaited()
    end_ms = heartbeats.phase_end_ms(group, now)
    if end_ms is None:
        return None
    until_ms = now.wall_ms + max(0, end_ms - now.mono_ms)
    return AwaitedFacts(waits.phase, until_ms, waits.members)


def streams_facts(group: GroupView) -> StreamsFacts | None:
    """Returns the problem with the topics of a streams group, such as a missing topic. Returns None
    if the topics have no problem, or if the group has another type.

    A problem that members have found remains when all members have left. Missing internal topics
    are an exception: the broker creates them at the next heartbeat.
    """
    if group.type != STREAMS or not (group.is_empty or group.state.value == NOT_READY):
        return None
    from coordinator.streams.group_view import StreamsGroupView  # most brokers have none

    assert isinstance(group, StreamsGroupView)
    since = group.not_ready_since
    if group.is_empty and since is None:
        return None
    problem = group.look().problem
    if group.is_empty and (problem is None or problem.code == MISSING_INTERNAL_TOPICS):
        return None
    since_ms = None if since is None else since.wall_ms
    if problem is None:
        return StreamsFacts(None, "", since_ms=since_ms)
    return StreamsFacts(problem.code, problem.detail, problem.topics, since_ms)
