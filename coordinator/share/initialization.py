"""The partitions of a share group that have a delivery state at the share coordinator (record type
15).

When a heartbeat finds partitions of a subscribed topic without a delivery state, the group writes
these partitions as "initializing" and emits `ShareStateWanted`. The broker initializes their state
at the share coordinator and then calls `initialized`, which writes the partitions as "initialized".
The next heartbeat assigns them. A topic is "deleting" while the state of its partitions is being
deleted.

Source: Kafka 4.3.1 ``GroupMetadataManager``: ``subscribedTopicsChangeMap``,
``addInitializingTopicsRecords``, ``initializeShareGroupState``, ``uninitializeShareGroupState``,
``maybeCleanupShareGroupState``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.share.changes import ShareChanges
from coordinator.share.events import Partitions, ShareStateDeletion, ShareStateWanted
from coordinator.share.group import ShareGroup
from coordinator.step import Step
from offsets.share_records import ShareGroupRun, StatePartitions, StatePartitionsRecord

Named = Mapping[bytes, tuple[str, tuple[int, ...]]]
"""The name and the partitions of each topic, by topic id. The partitions are in ascending order."""


def ask(step: Step, changes: ShareChanges) -> ShareStateWanted | None:
    """Writes the state "initializing" for the partitions of subscribed topics that have no delivery
    state. Returns the event that requests their initialization; None if all partitions are
    initialized or are being initialized."""
    group = changes.group
    wanted = _without_state(step, group, changes.names())
    if not wanted:
        return None
    stored = group.stored
    initializing = _combined(stored.initializing, wanted)
    deleting = {key: name for key, name in stored.deleting.items() if key not in initializing}
    value = StatePartitions(initializing, stored.initialized, deleting)
    changes.records.append(StatePartitionsRecord(value))
    topics = {topic_id: partitions for topic_id, (_, partitions) in wanted.items()}
    return ShareStateWanted(group.group_id, topics, changes.epoch.epoch)


def again(step: Step, group: ShareGroup, wanted: Named) -> None:
    """Requests that the broker initializes the delivery states of the partitions ``wanted`` again:
    writes a record that marks these partitions as "initializing"."""
    stored = group.stored
    initializing = _combined(stored.initializing, wanted)
    deleting = {key: name for key, name in stored.deleting.items() if key not in initializing}
    _write(step, group, StatePartitions(initializing, stored.initialized, deleting))
    group.asked_ms = step.now.mono_ms


def deleting(step: Step, group: ShareGroup, topic_ids: Iterable[bytes]) -> Partitions:
    """Writes a record that marks topics with a delivery state as "deleting". Returns the partitions
    whose delivery state the caller must delete. They include the partitions of topics whose earlier
    deletion did not complete."""
    stored, image = group.stored, step.state.topics
    found: dict[bytes, tuple[int, ...]] = {}
    for topic_id in topic_ids:
        if topic_id in stored.initialized:
            found[topic_id] = stored.initialized[topic_id][1]
        elif topic_id in stored.deleting and topic_id in image.names:
            partitions = image.by_name[image.names[topic_id]].partitions
            found[topic_id] = tuple(range(partitions))
    if found:
        names = {key: stored.initialized[key][0] for key in found if key in stored.initialized}
        initialized = {key: each for key, each in stored.initialized.items() if key not in found}
        value = StatePartitions(stored.initializing, initialized, {**stored.deleting, **names})
        _write(step, group, value)
    return found


def _without_state(step: Step, group: ShareGroup, names: Iterable[str]) -> Named:
    stored = group.stored
    known = [stored.initialized]
    retry_ms = step.state.config.share_initialize_retry_ms
    if group.asked_ms is not None and step.now.mono_ms - group.asked_ms < retry_ms:
        known.append(stored.initializing)
    found: dict[bytes, tuple[str, tuple[int, ...]]] = {}
    for topic in step.state.topics.existing(names):
        has = {n for each in known for n in each.get(topic.topic_id, ("", ()))[1]}
        if len(has) < topic.partitions:
            missing = tuple(n for n in range(topic.partitions) if n not in has)
            found[topic.topic_id] = (topic.name, missing)
    return found


def initialized(step: Step, group: ShareGroup, topics: Partitions) -> None:
    """Writes partitions as "initialized" after the broker has initialized their state."""
    stored, names = group.stored, step.state.topics.names
    named = {
        topic_id: (names.get(topic_id) or _name_of(stored, topic_id), tuple(sorted(partitions)))
        for topic_id, partitions in topics.items()
        if partitions and _name_of(stored, topic_id)
    }
    if named:
        initializing = _without(stored.initializing, topics)
        value = StatePartitions(initializing, _combined(stored.initialized, named), stored.deleting)
        _write(step, group, value)


def failed(step: Step, group: ShareGroup, topics: Partitions) -> None:
    """Marks partitions whose initialization failed as no longer initializing. The next heartbeat
    then requests their initialization again."""
    stored = group.stored
    initializing = _without(stored.initializing, topics)
    if initializing != stored.initializing:
        _write(step, group, StatePartitions(initializing, stored.initialized, stored.deleting))


def topics_deleted(step: Step, group: ShareGroup) -> None:
    """Removes deleted topics from the group. Emits `ShareStateDeletion`, so that the delivery
    states of their partitions are deleted."""
    gone = set(group.stale_topics(step.state.topics))
    if not gone:
        return
    stored = group.stored
    deleted = _combined(stored.initializing, stored.initialized)
    states = {topic_id: deleted[topic_id][1] for topic_id in sorted(gone) if topic_id in deleted}
    value = StatePartitions(
        {key: each for key, each in stored.initializing.items() if key not in gone},
        {key: each for key, each in stored.initialized.items() if key not in gone},
        {key: name for key, name in stored.deleting.items() if key not in gone},
    )
    _write(step, group, value)
    if states:
        step.events.append(ShareStateDeletion(group.group_id, states))


def all_deleting(step: Step, group: ShareGroup) -> Partitions:
    """Writes the state "deleting" for each topic of the group that has a delivery state. Returns
    the partitions whose state must be deleted. A topic whose earlier deletion did not complete is
    deleted again."""
    stored, by_id = group.stored, step.state.topics.names
    found = dict(_combined(stored.initializing, stored.initialized))
    for topic_id in stored.deleting:
        if topic_id in by_id:
            topic = step.state.topics.by_name[by_id[topic_id]]
            every = {topic_id: (topic.name, tuple(range(topic.partitions)))}
            found = _combined(found, every)
    if group.state_partitions is not None:
        deleting = {topic_id: name for topic_id, (name, _) in found.items()}
        _write(step, group, StatePartitions(deleting=deleting))
    return {topic_id: partitions for topic_id, (_, partitions) in found.items()}


def _write(step: Step, group: ShareGroup, value: StatePartitions) -> None:
    records = [StatePartitionsRecord(value)]
    step.records.append(ShareGroupRun(group.group_id, records, step.now.wall_ms))
    group.changed_ms = step.now.mono_ms


def _name_of(stored: StatePartitions, topic_id: bytes) -> str:
    """Returns the stored name of a topic; "" if the group has no delivery state for the topic."""
    for topics in (stored.initializing, stored.initialized):
        if topic_id in topics:
            return topics[topic_id][0]
    return ""


def _combined(one: Named, other: Named) -> dict[bytes, tuple[str, tuple[int, ...]]]:
    """Returns the partitions in ``one`` or ``other``. If a topic has different names, the name in
    ``other`` is used."""
    found: dict[bytes, tuple[str, tuple[int, ...]]] = {}
    for topic_id in sorted({*one, *other}):
        name, partitions = other.get(topic_id) or one[topic_id]
        more = one.get(topic_id, ("", ()))[1]
        found[topic_id] = (name, tuple(sorted({*partitions, *more})))
    return found


def _without(named: Named, topics: Partitions) -> dict[bytes, tuple[str, tuple[int, ...]]]:
    """Returns ``named`` without the partitions in ``topics``. Topics without remaining partitions
    are omitted."""
    found = {}
    for topic_id, (name, partitions) in named.items():
        gone = topics.get(topic_id, ())
        rest = tuple(n for n in partitions if n not in gone)
        if rest:
            found[topic_id] = (name, rest)
    return found
