"""Groups and their journals as plain values for JSON. docs/use/http-api.md describes the fields. A
field that ends in ``_ms`` is a wall time in milliseconds since 1970, or a duration (``join_ms``,
``remaining_ms``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.lag import PartitionLag
from broker.metrics.sources import Sources
from broker.web.views.noticed import flapping, loss, moved_back, rejected, returning
from broker.web.views.streams import STREAMS, task_waits, tasks_view, topology_view
from broker.web.views.verdicts import findings_of, never_committed, verdict_of
from coordinator.classic.heartbeats import awaited, phase_end_ms, silent_ms, state_since_ms
from coordinator.events import AssignedMember
from coordinator.journal import Restored
from coordinator.journal_rebalance import Change, Rebalance
from coordinator.read_only import GroupView, MemberView, Reconciliation
from coordinator.share.group import SHARE
from offsets.cache import CachedOffset
from offsets.pending import PendingOfProducer
from protocol.consumer_protocol import CONSUMER, assigned_partitions
from protocol.errors import ProtocolError
from protocol.now import Now
from verdicts.judge import Judgement
from verdicts.names import Verdict
from verdicts.spelling import plain_host

View = dict[str, Any]


def summary(
    sources: Sources, hosted: HostedGroups, group: GroupView, lag: int | None = None
) -> View:
    """Returns the summary of a group. A caller that already knows the lag passes ``lag``."""
    journal = sources.journal.get(group.group_id)
    last = None if journal is None else journal.rebalances.last
    return {
        "group": group.group_id,
        "state": group.state.value,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "generation": group.generation_id,
        "members": len(group.members),
        "lag": sources.lags.records_of(hosted, group) if lag is None else lag,
        "rebalances": 0 if journal is None else journal.seen,
        "last_rebalance_ms": None if last is None else last.began_ms,
        "last_cause": None if last is None else str(last.cause),
        "last_why": None if last is None else last.detail,
        **verdict_of(sources, hosted, group),
    }


def group_head(sources: Sources, hosted: HostedGroups, group: GroupView) -> View:
    """Returns the current state of a group, without members and offsets."""
    now = sources.time.now()
    return {
        "group": group.group_id,
        "state": group.state.value,
        "state_since_ms": state_since_ms(group, now),
        "type": group.type,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_name,
        "generation": group.generation_id,
        "leader": group.leader_id,
        "coordinator_partition": hosted.index,
        "awaits": _awaits(group, now),
        "topology": topology_view(group, now),
        "pending_offsets": [
            pending_view(sources, each) for each in hosted.core.view.pending(group.group_id)
        ],
    }


def group_summary(
    sources: Sources, hosted: HostedGroups, group: GroupView, judgement: Judgement
) -> View:
    """Returns the current state and the verdict of a group, without members and offsets: a group
    may have thousands of them."""
    return {
        **group_head(sources, hosted, group),
        **verdict_of(sources, hosted, group),
        **findings_of(judgement),
        "pending_members": list(group.pending),
        "lag": sources.lags.records_of(hosted, group),
        "flapping": [flapping(each) for each in sources.journal.flapping(group.group_id)],
    }


def member_rows(sources: Sources, group: GroupView) -> Iterator[View]:
    """Yields the members of a group. Each row shows the member's state when the row is created."""
    for member in list(group.members.values()):
        yield member_view(group, member, sources.time.now())


def journal_head(sources: Sources, hosted: HostedGroups | None, group_id: str) -> View | None:
    """Returns a group's journal without its rebalances; None if neither the journal nor the group
    exists."""
    journal = sources.journal.get(group_id)
    restored = sources.journal.restored(group_id)
    group = None if hosted is None else hosted.core.view.groups.get(group_id)
    if journal is None and restored is None and group is None:
        return None
    kind = None if group is None else group.protocol_type
    return {
        "group": group_id,
        "state": None if group is None else group.state.value,
        "topology": None if group is None else topology_view(group, sources.time.now()),
        "task_waits": task_waits(group),
        "restored": None if restored is None else _restored(restored),
        "notes": [
            {
                "at_ms": note.at_ms,
                "kind": note.kind,
                "text": note.text,
                "instance": note.instance or None,
                "times": note.times,
                "since_ms": note.since_ms or note.at_ms,
                "source": note.source.value,
            }
            for note in ([] if journal is None else journal.notes)
        ],
        "rejected_commits": [] if journal is None else rejected(journal, joins=False),
        "refused_joins": [] if journal is None else rejected(journal, joins=True),
        "moved_back": {
            "commits": 0 if journal is None else journal.moved_back.number,
            "last": [moved_back(each) for each in ([] if journal is None else journal.moved_back)],
        },
        "losses": {
            "count": 0 if journal is None else journal.losses.number,
            "last": [loss(each) for each in ([] if journal is None else journal.losses)],
        },
        "flapping": [flapping(each) for each in sources.journal.flapping(group_id)],
        "returning": [returning(each, kind) for each in sources.journal.returning(group_id)],
    }


def rebalances(
    sources: Sources, hosted: HostedGroups | None, group_id: str, last: int
) -> list[tuple[Rebalance, Callable[[], View]]]:
    """Returns a group's last ``last`` rebalances, oldest first. Each has a function that creates
    its view."""
    entries = sources.journal.rebalances(group_id)
    if not entries or not last:
        return []
    journal = sources.journal.get(group_id)
    running = None if journal is None else journal.open_rebalance
    group = None if hosted is None else hosted.core.view.groups.get(group_id)
    now = sources.time.now()
    return [
        (each, partial(_rebalance, each, group, now, is_running=each is running))
        for each in entries[-last:]
    ]


def rebalance_rows(
    sources: Sources, hosted: HostedGroups | None, group_id: str, last: int
) -> Iterator[View]:
    """Yields the views of a group's last ``last`` rebalances. A view may contain thousands of
    members."""
    for _, make in rebalances(sources, hosted, group_id, last):
        yield make()


def offset_rows(
    sources: Sources, hosted: HostedGroups, group_id: str, judgement: Judgement
) -> Iterator[View]:
    """Yields the committed offsets of a group with their lags. Then yields the partitions that a
    member owns but for which the group has no commit."""
    for lag in sources.lags.of_group(hosted, group_id):
        entry = hosted.core.view.offsets.get(group_id, lag.topic, lag.partition)
        yield offset_view(lag, entry, judgement.of_partition(lag.topic, lag.partition))
    for _, row in never_committed(judgement):
        yield row


def offset_view(lag: PartitionLag, entry: CachedOffset | None, verdict: Verdict) -> View:
    """Returns one committed offset with its lag. ``entry`` contains the metadata of the commit."""
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "log_start_offset": lag.log_start_offset,
        "log_end_offset": lag.log_end_offset,
        "lag": lag.lag,
        "lost_records": lag.lost,
        "lag_seconds": lag.seconds,
        "metadata": (entry.metadata or None) if entry is not None else None,
        "committed_ms": lag.committed_ms,
        "verdict": verdict,
    }


# ---------------------------------------------------------------------------------------- groups


def _awaits(group: GroupView, now: Now) -> View | None:
    waits = group.awaited()
    if waits.deadline_ms is None:
        return None
    remaining_ms = max(0, waits.deadline_ms - now.mono_ms)
    end_ms = phase_end_ms(group, now) or waits.deadline_ms
    return {
        "phase": waits.phase,
        "deadline_ms": now.wall_ms + remaining_ms,
        "ends_ms": now.wall_ms + max(0, end_ms - now.mono_ms),
        "remaining_ms": remaining_ms,
        "members": [_awaited(group, member_id, now) for member_id in waits.members],
    }


def _awaited(group: GroupView, member_id: str, now: Now) -> View:
    """Returns a member for which the group waits, with the time of its last heartbeat or other
    request."""
    found = awaited(group, member_id, now)
    return {
        **_named(group, member_id),
        "sign": found.sign.value,
        "last_heard_ms": None if found.silent_ms is None else now.wall_ms - found.silent_ms,
        "words": found.words,
    }


_UNHEARD: View = {"sign": None, "last_heard_ms": None, "words": None}
"""The heartbeat fields of a member for which a past rebalance waited. They are None, because their
values at the time of the rebalance are unknown."""


def _named(group: GroupView | None, member_id: str) -> View:
    """Returns the view of a member. If the member has left the group, the view has only the id."""
    member = None if group is None else group.members.get(member_id)
    if member is None:
        return {"member": member_id, "instance": None, "client": None, "host": None}
    return _who(member)


def _who(member: MemberView | Change | AssignedMember) -> View:
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": plain_host(member.client_host),
    }


def member_view(group: GroupView, member: MemberView, now: Now) -> View:
    waits = None
    if member.waits:
        waits = "SyncGroup" if member.join_ticket is None else "JoinGroup"
    return {
        **_named(group, member.member_id),
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "last_heard_ms_ago": silent_ms(member, now),
        "waits_with": waits,
        "reconciliation": reconciliation(member.reconciliation, now),
        "tasks": tasks_view(group, member),
        **_owned(group.protocol_type, member.assignment),
    }


def reconciliation(found: Reconciliation | None, now: Now) -> View | None:
    """Returns the progress of a consumer group's member toward its assignment; None in a classic
    group."""
    if found is None:
        return None
    return {
        "epoch": found.epoch,
        "state": found.state,
        "target": found.target,
        "revoking": found.revoking,
        "revoke_since_ms": _wall_ms(found.revoke_since_ms, now),
        "revoke_until_ms": _wall_ms(found.revoke_until_ms, now),
        "waits_for": [
            {"topic": topic, "partition": partition, "member": holder}
            for topic, partition, holder in found.waits_for
        ],
    }


def _wall_ms(mono_ms: int | None, now: Now) -> int | None:
    return None if mono_ms is None else now.wall_ms - now.mono_ms + mono_ms


def _owned(protocol_type: str | None, assignment: bytes) -> View:
    partitions = None
    if protocol_type in (CONSUMER, SHARE, STREAMS):
        try:
            partitions = assigned_partitions(assignment)
        except ProtocolError:
            partitions = None
    return {"partitions": partitions, "assignment_bytes": len(assignment)}


# --------------------------------------------------------------------------------------- journal


def _rebalance(entry: Rebalance, group: GroupView | None, now: Now, *, is_running: bool) -> View:
    missing = [{**_named(group, member_id), **_UNHEARD} for member_id in entry.awaited]
    until_ms = entry.until_ms
    if is_running and group is not None and (waits := _awaits(group, now)) is not None:
        missing, until_ms = waits["members"], waits["deadline_ms"]
    return {
        "number": entry.number,
        "source": entry.source.value,
        "type": entry.type,
        "cause": str(entry.cause),
        "why": entry.detail,
        "member": entry.member_id or None,
        "last_heard_ms": entry.last_heard_ms or None,
        "from_empty": entry.from_empty,
        "began_ms": entry.began_ms,
        "ended_ms": entry.ended_ms or None,
        "phase": entry.phase,
        "outcome": entry.outcome or None,
        "awaited": missing,
        "until_ms": until_ms or None,
        "moved": entry.moved or None,
        "join_ms": _or_none(entry.join_ms),
        "join_ended_by": entry.join_ended_by or None,
        "sync_ms": _or_none(entry.sync_ms),
        "last_member": entry.last_member or None,
        "last_wait_ms": entry.last_wait_ms,
        "generation_before": entry.generation_before,
        "generation": _or_none(entry.generation_id),
        "protocol": entry.protocol_name,
        "leader": entry.leader,
        "members": entry.members,
        "changes": [_change(each) for each in entry.changes],
        "more_changes": entry.more_changes,
        "assigned": [_assigned(entry.protocol_type, each) for each in entry.assigned],
    }


def _change(change: Change) -> View:
    return {
        "at_ms": change.at_ms,
        **_who(change),
        "what": change.text,
        "same_client": (
            None
            if change.same_client is None
            else {"member": change.same_client.member_id, "words": change.same_client.words}
        ),
    }


def _assigned(protocol_type: str | None, member: AssignedMember) -> View:
    return {
        **_who(member),
        **_owned(protocol_type, member.assignment),
    }


def _restored(restored: Restored) -> View:
    return {
        "at_ms": restored.at_ms,
        "generations": [
            {
                "log_offset": each.log_offset,
                "generation": each.generation_id,
                "protocol": each.protocol_name,
                "leader": each.leader,
                "members": each.members,
                "stored_ms": _or_none(each.state_timestamp_ms),
            }
            for each in restored.generations
        ],
    }


def _or_none(value: int) -> int | None:
    return None if value < 0 else value


def pending_view(sources: Sources, pending: PendingOfProducer) -> dict[str, Any]:
    """Returns the offsets of the group that are pending in one open transaction."""
    name = sources.lso_blockers.transactional_id_of(pending.producer_id)
    whose = f"producer {pending.producer_id}" if name is None else name
    offsets = "1 offset is" if pending.offsets == 1 else f"{pending.offsets} offsets are"
    return {
        "producer_id": pending.producer_id,
        "producer_epoch": pending.producer_epoch,
        "transactional_id": name,
        "offsets": pending.offsets,
        "sentence": f"{offsets} pending in the transaction of {whose}",
    }
