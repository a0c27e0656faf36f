"""The state of a consumer group, as the records in the log define it.

Only `ConsumerGroup.fold` changes this state, once for each new or loaded record. Timers and
``refresh_wanted`` are not in records, and have their initial values after a load. The log may have
been written by other brokers. After compaction a member may have a current assignment but no
metadata, or metadata but no current assignment. A tombstone may be for a record that does not
exist.

Source: Kafka 4.3.1 ``ConsumerGroup``, ``ModernGroup``, ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set

from coordinator.config import GroupConfig
from coordinator.consumer.states import STABLE, ConsumerGroupState
from coordinator.outcome import ConsumerHeartbeatReply
from coordinator.timers import GroupTimer
from coordinator.topics_image import Topic, TopicsImage
from offsets.consumer_records import (
    AssignedEpochs,
    Assignment,
    ConsumerRecord,
    CurrentAssignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberMetadata,
    MemberRecord,
    RegexRecord,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
    TopicsRecord,
)

INITIAL_EPOCH = 1
"""The epoch of a new group and of its target assignment. The first member raises the group's epoch
to 2, as in Kafka 4.3 (to 1 in earlier versions)."""
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The member epoch of a static member that leaves temporarily. The member keeps its partitions
until its session expires."""

NO_METADATA = MemberMetadata()
NO_ASSIGNMENT = CurrentAssignment()


class ConsumerMember:
    """A member of a consumer group."""

    __slots__ = (
        "current",
        "encoded",
        "idle_reply",
        "member_id",
        "metadata",
        "rebalance",
        "session",
    )

    def __init__(self, group_id: str, member_id: str) -> None:
        self.member_id = member_id
        self.metadata = NO_METADATA
        """The member's metadata. Only `ConsumerGroup.fold` changes ``metadata`` and ``current``."""
        self.current = NO_ASSIGNMENT
        self.encoded: tuple[CurrentAssignment, bytes] | None = None
        """The cached result of `ConsumerMemberView.assignment`: the assignment, and its encoded
        form."""
        self.idle_reply: ConsumerHeartbeatReply | None = None
        """The reply to the last heartbeat that changed nothing. If the reply to a later such
        heartbeat is equal, this object is returned again instead of a new one."""
        self.session = GroupTimer(group_id, member_id)
        """The timer of the member's session, which every accepted heartbeat extends. The member is
        removed when the timer is due."""
        self.rebalance = GroupTimer(group_id, member_id)
        """The timer of the rebalance timeout. It runs while the member is UNREVOKED. When it is
        due, the member is removed."""

    @property
    def is_away(self) -> bool:
        return self.current.epoch == STATIC_LEAVING_EPOCH


def session_timeout_ms(config: GroupConfig, member: ConsumerMember) -> int:
    """Returns the session timeout of a member. A classic member has a timeout of its own; other
    members have the group's timeout."""
    classic = member.metadata.classic
    if classic is not None:
        return classic.session_timeout_ms
    return config.of_group(member.session.group_id).session_timeout_ms


class ConsumerGroup:
    """One consumer group of a shard."""

    __slots__ = (
        "_behind",
        "changed_ms",
        "classic_members",
        "epoch",
        "epoch_ms",
        "expiry_warned_ms",
        "group_id",
        "has_topics_record",
        "holders",
        "members",
        "name_counts",
        "refresh_wanted",
        "regex_counts",
        "regexes",
        "resolved_ms",
        "resolved_version",
        "resolving",
        "static_members",
        "target_epoch",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(INITIAL_EPOCH)
        self.epoch_ms = -1
        """The wall time in ms at which the epoch was last raised; -1 if unknown. If the group has
        no members, it has been empty since this time."""
        self.expiry_warned_ms = 0
        """The shortest warning time in ms within which the last check found that an offset of the
        group will expire; 0 if the check found no such offset for any of the warning times."""
        self.target_epoch = TargetEpoch(INITIAL_EPOCH)
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """The member id of each static member, by instance id."""
        self.targets: dict[str, Assignment] = {}
        """The target assignment of each member, by member id. A member that joined after the target
        was computed is missing."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.holders: dict[tuple[bytes, int], str] = {}
        """For each partition that a member owns or is revoking, the id of the member."""
        self.has_topics_record = False
        """True if the log has a record of type 4 for this group. The next change of the epoch
        deletes this record."""
        self.refresh_wanted = True
        """True if topics may have changed since the metadata hash was computed. This is so after a
        load, and after a subscribed topic was created, changed or deleted."""
        self.changed_ms = 0
        """The monotonic time in ms of the last step that wrote records; after a load, the time of
        the load."""
        self.resolving = False
        self.resolved_ms = 0
        """The monotonic time in ms at which the last resolution of regexes began."""
        self.resolved_version = -1
        """The version of the topics image for which regexes were last resolved; -1 if no regex was
        resolved since the load."""
        self.classic_members = 0
        self._behind: set[str] | None = None
        """The cached result of the method `behind`; None if it was not computed since the target
        last changed."""
        self.name_counts: dict[str, int] = {}
        self.regex_counts: dict[str, int] = {}

    # -------------------------------------------------------------------------------------- fold

    def fold(self, record: ConsumerRecord, timestamp_ms: int = -1) -> None:
        """Applies a record that is in the log. ``timestamp_ms`` is the wall time at which the
        record was written."""
        if isinstance(record, CurrentRecord):
            self._fold_current(record.member_id, record.value)
        elif isinstance(record, MemberRecord):
            self._fold_metadata(record.member_id, record.value)
        elif isinstance(record, TargetRecord):
            if record.value is None:
                self.targets.pop(record.member_id, None)
            else:
                self.targets[record.member_id] = record.value
        elif isinstance(record, EpochRecord):
            self.epoch = record.value or GroupEpoch(INITIAL_EPOCH)
            self.epoch_ms = timestamp_ms
        elif isinstance(record, TargetEpochRecord):
            self.target_epoch = record.value or TargetEpoch(INITIAL_EPOCH)
            self._behind = None
        elif isinstance(record, TopicsRecord):
            self.has_topics_record = record.value is not None
        elif record.value is None:
            self.regexes.pop(record.regex, None)
        else:
            self.regexes[record.regex] = record.value

    def _fold_metadata(self, member_id: str, value: MemberMetadata | None) -> None:
        old = self.members.get(member_id)
        if old is not None:
            self._count(old.metadata, -1)
            if self.static_members.get(old.metadata.instance_id or "") == member_id:
                del self.static_members[old.metadata.instance_id or ""]
        if value is None:
            if old is not None:
                self._release(member_id, old.current)
                del self.members[member_id]
                if self._behind is not None:
                    self._behind.discard(member_id)
            self.targets.pop(member_id, None)
            return
        self._member(member_id).metadata = value
        self._count(value, 1)
        if value.instance_id:
            self.static_members[value.instance_id] = member_id

    def _fold_current(self, member_id: str, value: CurrentAssignment | None) -> None:
        if value is None and member_id not in self.members:
            return
        member = self._member(member_id)
        self._release(member_id, member.current)
        member.current = value or NO_ASSIGNMENT
        self._note_progress(member)
        for partitions in (member.current.assigned, member.current.revoking):
            for key in _keys(partitions):
                self.holders[key] = member_id

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(self.group_id, member_id)
            self._note_progress(member)
        return member

    def _note_progress(self, member: ConsumerMember) -> None:
        """Called after the current assignment of ``member`` has changed. Updates the cached set of
        the members that `behind` returns."""
        if self._behind is not None:
            note = self._behind.add if self._is_behind(member) else self._behind.discard
            note(member.member_id)

    def _release(self, member_id: str, current: CurrentAssignment) -> None:
        """Removes the partitions of a member's assignment from ``holders``. Does not remove a
        partition that another member holds."""
        for partitions in (current.assigned, current.revoking):
            for key in _keys(partitions):
                if self.holders.get(key) == member_id:
                    del self.holders[key]

    def _count(self, metadata: MemberMetadata, step: int) -> None:
        self.classic_members += step if metadata.classic is not None else 0
        for name in metadata.subscribed_topics:
            _add(self.name_counts, name, step)
        if metadata.subscribed_regex:
            _add(self.regex_counts, metadata.subscribed_regex, step)

    def records(self) -> Iterator[ConsumerRecord]:
        """Yields the records of this group for a snapshot: the records that a fully compacted log
        would contain.

        The group may change during the iteration. The log then contains a later record, which a
        load applies after the yielded record.
        """
        members = list(self.members.items())
        for member_id, member in members:
            yield MemberRecord(member_id, member.metadata)
        for regex, resolved in list(self.regexes.items()):
            yield RegexRecord(regex, resolved)
        yield EpochRecord(self.epoch)
        if self.has_topics_record:
            yield TopicsRecord(True)
        for member_id, target in list(self.targets.items()):
            yield TargetRecord(member_id, target)
        yield TargetEpochRecord(self.target_epoch)
        for member_id, member in members:
            yield CurrentRecord(member_id, member.current)

    def new_member(self, member_id: str) -> ConsumerMember:
        """Returns a new member. Its timers can be armed before the member's records are in the
        log."""
        return self._member(member_id)

    # ------------------------------------------------------------------------------------- views

    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch.epoch > self.target_epoch.epoch:
            return ConsumerGroupState.ASSIGNING
        return ConsumerGroupState.RECONCILING if self.behind() else ConsumerGroupState.STABLE

    def behind(self) -> Set[str]:
        """Returns the ids of the members that are not STABLE at the target's epoch. Most steps need
        these ids, so they are cached for each target."""
        if self._behind is None:
            members = self.members.values()
            self._behind = {each.member_id for each in members if self._is_behind(each)}
        return self._behind

    def _is_behind(self, member: ConsumerMember) -> bool:
        current = member.current
        return current.epoch != self.target_epoch.epoch or current.state != STABLE

    def target_of(self, member_id: str) -> Assignment:
        """Returns the target of a member; empty for a member that joined after the target was
        computed."""
        return self.targets.get(member_id, {})

    @property
    def has_regexes(self) -> bool:
        return bool(self.regex_counts)

    @property
    def used_regexes(self) -> Set[str]:
        return self.regex_counts.keys()

    def regex_members(self, regex: str) -> int:
        return self.regex_counts.get(regex, 0)

    def subscribed_names(self) -> set[str]:
        """Returns the names of all topics to which a member subscribes, by name or by resolved
        regex."""
        names = set(self.name_counts)
        for regex in self.regex_counts:
            if regex in self.regexes:
                names.update(self.regexes[regex].topics)
        return names

    def subscribes_to(self, name: str) -> bool:
        """Returns whether a member subscribes to the topic, by name or by resolved regex."""
        return name in self.name_counts or any(
            name in self.regexes[regex].topics
            for regex in self.regex_counts
            if regex in self.regexes
        )

    def knows_subscriptions(self) -> bool:
        """Returns whether all regexes of the members are resolved, so that all subscribed topics
        are known."""
        return self.regex_counts.keys() <= self.regexes.keys()

    def topics_of(self, metadata: MemberMetadata, image: TopicsImage) -> list[Topic]:
        """Returns the existing topics to which a member with this metadata subscribes, ordered by
        name."""
        return image.existing(self._names_of(metadata))

    def topic_ids_of(self, metadata: MemberMetadata, image: TopicsImage) -> set[bytes]:
        by_name = image.by_name
        return {by_name[name].topic_id for name in self._names_of(metadata) if name in by_name}

    def _names_of(self, metadata: MemberMetadata) -> Collection[str]:
        regex = self.regexes.get(metadata.subscribed_regex or "")
        if regex is None:
            return metadata.subscribed_topics
        return {*metadata.subscribed_topics, *regex.topics}


def _keys(partitions: AssignedEpochs) -> Iterable[tuple[bytes, int]]:
    for topic_id, epochs in partitions.items():
        for partition in epochs:
            yield topic_id, partition


def _add(counts: dict[str, int], name: str, step: int) -> None:
    count = counts.get(name, 0) + step
    if count:
        counts[name] = count
    else:
        del counts[name]
