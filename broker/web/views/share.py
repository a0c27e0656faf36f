"""Share groups as plain values for JSON. For each share partition: the records in flight with their
holders, and the delivery history of records that were delivered again or archived.

The broker keeps the outcomes of deliveries in memory while the share partition is loaded. The
journal keeps the last delivery of archived records. For a share partition that is not loaded, the
stored state is shown, in which no member holds records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.sources import Sources
from broker.share.live_partition import LivePartition
from broker.web.views.share_histories import Piece, journaled, latest_outcomes, pieces_of
from coordinator.share.archived import Archived
from coordinator.share.group_view import ShareGroupView
from protocol.now import Now
from share.partition.loading import loading
from share.partition.share_partition import SharePartition
from share.partition.values import InFlightRange, Outcome
from share.persister.values import coordinator_key
from share.values import UNINITIALIZED_OFFSET, DeliveryState, SharePartitionKey
from verdicts.spelling import plain_host

View = dict[str, Any]

RANGES_SHOWN = 100
"""The maximum number of in-flight ranges shown for a share partition."""
HISTORIES_SHOWN = 20
"""The maximum number of records shown with a history for a share partition."""
OUTCOMES_SHOWN = 10
"""The maximum number of deliveries shown in a history. A record is delivered at most 10 times."""
TOO_MANY = "too many deliveries"

_STATES: dict[DeliveryState, str] = {
    DeliveryState.AVAILABLE: "available",
    DeliveryState.ACQUIRED: "acquired",
    DeliveryState.ACKNOWLEDGED: "acknowledged",
    DeliveryState.ARCHIVED: "archived",
}


class Wanted(NamedTuple):
    """Selects the part of a share group that is shown. None in a field means everything."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


Names = Mapping[str, tuple[str, str]]
"""The client id and host of each known member, by member id."""


def share_head(sources: Sources, hosted: HostedGroups, group: ShareGroupView) -> View:
    """Returns the current state of a share group, and its delivery settings."""
    return {
        "group": group.group_id,
        "state": group.state.value,
        "epoch": group.generation_id,
        "coordinator_partition": hosted.index,
        **delivery_limits(sources, group.group_id),
    }


def delivery_limits(sources: Sources, group_id: str) -> View:
    settings = sources.share_partitions.settings_of(group_id)
    limits = settings.limits
    return {
        "delivery_count_limit": limits.delivery_count_limit,
        "lock_duration_ms": limits.lock_duration_ms,
        "max_record_locks": limits.max_record_locks,
        "isolation": "read_committed" if settings.read_committed else "read_uncommitted",
    }


def names_of(sources: Sources, group: ShareGroupView) -> Names:
    """Returns the client id and host of each member, and of each former member that the journal
    names."""
    journal = sources.journal.get(group.group_id)
    names: dict[str, tuple[str, str]] = {}
    for rebalance in () if journal is None else journal.rebalances:
        for assigned in rebalance.assigned:
            names[assigned.member_id] = assigned.client_id, plain_host(assigned.client_host)
        for change in rebalance.changes:
            names[change.member_id] = change.client_id, plain_host(change.client_host)
    for archived in () if journal is None else journal.archived:
        if archived.client_id:
            names[archived.member_id] = archived.client_id, plain_host(archived.client_host)
    for member in group.members.values():
        names[member.member_id] = member.client_id, plain_host(member.client_host)
    return names


def archived_of(sources: Sources, group_id: str) -> Mapping[tuple[str, int], Sequence[Archived]]:
    """Returns the archived records in the journal of a group, by topic id (hexadecimal) and
    partition."""
    journal = sources.journal.get(group_id)
    found: dict[tuple[str, int], list[Archived]] = {}
    for each in () if journal is None else journal.archived:
        found.setdefault((each.topic_id, each.partition), []).append(each)
    return found


class Place(NamedTuple):
    """A share partition of a group, with a function that creates its view in steps. The function
    yields None after each step, and finally the view."""

    topic: str
    partition: int
    make: partial[Iterator[View | None]]


def share_places(
    sources: Sources, group: ShareGroupView, offset: int | None = None
) -> Iterator[Place]:
    """Yields the share partitions of a group, ordered by topic and partition. If ``offset`` is set,
    the views of the share partitions contain only data about the record at this offset."""
    names, archived = names_of(sources, group), archived_of(sources, group.group_id)
    in_memory = {live.key: live for live in sources.share_partitions.of_group(group.group_id)}
    keys = {
        SharePartitionKey(group.group_id, topic_id, partition)
        for topic_id, partitions in group.share_partitions.items()
        for partition in partitions
    }
    known = [
        (topic.name, key.partition, key)
        for key in keys | in_memory.keys()
        if (topic := sources.registry.topic_by_id(key.topic_id)) is not None
    ]
    for name, partition, key in sorted(known):
        entries = archived.get((key.topic_id.hex(), partition), ())
        make = partial(_row, sources, name, key, in_memory.get(key), names, entries, offset)
        yield Place(name, partition, make)


def share_partition_rows(
    sources: Sources, group: ShareGroupView, wanted: Wanted
) -> Iterator[View | None]:
    """Yields the views of the share partitions that ``wanted`` selects, ordered by topic and
    partition. Yields None in place of each other share partition, and where the caller may
    interrupt the work."""
    for place in share_places(sources, group, wanted.offset):
        if wanted.topic in (None, place.topic) and wanted.partition in (None, place.partition):
            yield from place.make()
        else:
            yield None


def known_partition_rows(
    sources: Sources, group_id: str, topic_name: str, wanted: Wanted
) -> Iterator[View | None]:
    """Yields the views of the share partitions of one topic whose log or state is on this broker.
    This broker need not be the coordinator of the group. Only the coordinator knows the
    members, so the views have member ids without clients and hosts."""
    topic = sources.registry.topic(topic_name)
    if topic is None:
        return
    in_memory = {live.key: live for live in sources.share_partitions.of_group(group_id)}
    archived = archived_of(sources, group_id)
    for partition in range(topic.partitions):
        if wanted.partition not in (None, partition):
            continue
        key = SharePartitionKey(group_id, topic.topic_id, partition)
        is_stored = sources.share_states.view_of(coordinator_key(key)) is not None
        if is_stored or key in in_memory or sources.logs.get(topic_name, partition) is not None:
            entries = archived.get((topic.topic_id.hex(), partition), ())
            live = in_memory.get(key)
            yield from _row(sources, topic_name, key, live, {}, entries, wanted.offset)
        yield None


def _row(
    sources: Sources,
    topic: str,
    key: SharePartitionKey,
    live: LivePartition | None,
    names: Names,
    archived: Sequence[Archived],
    offset: int | None,
) -> Iterator[View | None]:
    log = sources.logs.get(topic, key.partition)
    now = sources.time.now()
    share = None if live is None else live.share
    is_loaded = share is not None
    if share is None:
        share = yield from _stored(sources, key)
    view: View = {
        "topic": topic,
        "partition": key.partition,
        "loaded": is_loaded,
        "known_since_ms": live.loaded_ms if live and is_loaded else None,
        "log_start_offset": None if log is None else log.log.log_start_offset,
        "log_end_offset": None if log is None else log.high_watermark,
        **_without_state(),
    }
    if share is None:
        yield view
        return
    next_offset = share.end_offset + 1
    view |= {
        "start_offset": share.start_offset,
        "next_offset": next_offset,
        "unread": None if log is None else max(0, log.high_watermark - next_offset),
    }
    if live is not None and live.deleted is not None:
        view["deleted"] = dict(zip(("first_offset", "last_offset"), live.deleted, strict=True))
    ranges, shown = list[InFlightRange](), list[InFlightRange]()
    counts = Counter[str]()
    for piece in share.in_flight_pieces():
        for each in piece:
            counts[_STATES[each.state]] += each.last_offset - each.first_offset + 1
        ranges += piece
        shown += [each for each in piece if offset is None or _contains(each, offset)]
        yield None
    view["records"].update(counts)
    view["in_flight"] = [_range_view(each, names, now) for each in shown[:RANGES_SHOWN]]
    view["more_in_flight"] = max(0, len(shown) - RANGES_SHOWN)
    first, last = (0, share.end_offset) if offset is None else (offset, offset)
    seen = share.outcomes(first, last)
    outcomes = journaled(archived, share.state_epoch, seen) + seen
    histories = pieces_of(latest_outcomes(outcomes), ranges, first, last)
    view["histories"] = [
        _history_view(outcomes, each, names) for each in histories[:HISTORIES_SHOWN]
    ]
    view["more_histories"] = max(0, len(histories) - HISTORIES_SHOWN)
    yield view


def _without_state() -> View:
    """Returns the fields of a share partition with unknown state."""
    return {
        "start_offset": None,
        "next_offset": None,
        "unread": None,
        "records": dict.fromkeys(_STATES.values(), 0),
        "deleted": None,
        "in_flight": [],
        "more_in_flight": 0,
        "histories": [],
        "more_histories": 0,
    }


def _stored(
    sources: Sources, key: SharePartitionKey
) -> Generator[None, None, SharePartition | None]:
    """Returns a share partition with the state that the share coordinator has stored. Returns None
    if the coordinator has not loaded the share partition, or if the share partition has no start
    offset."""
    view = sources.share_states.view_of(coordinator_key(key))
    state = None if view is None else view.state(key)
    if state is None or state.start_offset == UNINITIALIZED_OFFSET:
        return None
    limits = sources.share_partitions.settings_of(key.group_id).limits
    return SharePartition(key, state, limits, ranges=(yield from loading(state)))


def _contains(each: InFlightRange | Outcome, offset: int) -> bool:
    return each.first_offset <= offset <= each.last_offset


def _named(member_id: str, names: Names) -> View:
    client, host = names.get(member_id, (None, None))
    return {"member": member_id or None, "client": client, "host": host}


def _range_view(each: InFlightRange, names: Names, now: Now) -> View:
    is_held = bool(each.member_id)
    return {
        "first_offset": each.first_offset,
        "last_offset": each.last_offset,
        "state": _STATES[each.state],
        "deliveries": each.delivery_count,
        **_named(each.member_id, names),
        "since_ms": each.lock_begins_ms if is_held else None,
        "until_ms": now.wall_ms - now.mono_ms + each.lock_ends_ms if is_held else None,
        "pending": each.pending,
    }


def _history_view(outcomes: Sequence[Outcome], piece: Piece, names: Names) -> View:
    latest, inside = piece.latest, piece.now
    state = "archived" if latest.archived else "acknowledged"
    mine = [each for each in outcomes if _contains(each, piece.first_offset)]
    return {
        "first_offset": piece.first_offset,
        "last_offset": piece.last_offset,
        "deliveries": piece.deliveries,
        "state": state if inside is None else _STATES[inside.state],
        "archived_because": _archived_because(latest),
        "outcomes": [_outcome_view(each, names) for each in mine[-OUTCOMES_SHOWN:]],
    }


def _archived_because(latest: Outcome) -> str | None:
    if not latest.archived:
        return None
    return latest.kind if latest.kind in ("rejected", "gap") else TOO_MANY


def _outcome_view(each: Outcome, names: Names) -> View:
    return {
        "delivery": each.delivery_count,
        **_named(each.member_id, names),
        "since_ms": each.began_ms,
        "at_ms": each.ended_ms,
        "outcome": each.kind,
    }
