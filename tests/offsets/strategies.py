"""Hypothesis strategies that generate runs, and functions that convert values of runs into the
types of `tests.model.log_reader`, an independent decoder."""

from __future__ import annotations

from hypothesis import strategies as st

from offsets.consumer_records import (
    ClassicMember,
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
from offsets.runs import (
    GroupMember,
    GroupRun,
    GroupValue,
    MarkerRun,
    OffsetRun,
    OffsetTombstones,
    OwnBatch,
    Run,
    TransactionalRun,
)
from offsets.share_records import (
    ShareCurrentAssignment,
    ShareCurrentRecord,
    ShareEpochRecord,
    ShareGroupEpoch,
    ShareMemberMetadata,
    ShareMemberRecord,
    ShareTargetEpoch,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    StatePartitions,
    StatePartitionsRecord,
)
from offsets.streams_records import (
    CopartitionGroup,
    Endpoint,
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsCurrentRecord,
    StreamsEpochRecord,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsMemberRecord,
    StreamsTargetEpoch,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsTopologyRecord,
    Subtopology,
    TaskRoles,
    Topology,
)
from tests.model.log_reader import ModelGroup, ModelMember

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
timestamps_ms = st.integers(0, 2**48)
names = st.text(max_size=30) | st.sampled_from(["g", "orders", "группа", "a🙂", "x" * 300])
few_names = st.sampled_from(["a", "b", "group-1"])
few_partitions = st.integers(0, 12) | st.sampled_from([-1, 70, 300, 5000, 2**31 - 1])


@st.composite
def offset_runs(draw: st.DrawFn, groups=names, partitions=int32) -> OffsetRun:
    numbers = draw(
        st.lists(partitions, min_size=1, max_size=12, unique=True)
        | st.integers(1, 200).map(lambda size: list(range(size)))
    )
    size = len(numbers)
    metadata = draw(st.none() | st.lists(names, min_size=size, max_size=size))
    expire_ms = draw(st.just(-1) | timestamps_ms)
    epochs = st.just(-1) if expire_ms != -1 else st.integers(-1, 2**31 - 1)
    return OffsetRun(
        group_id=draw(groups),
        topic=draw(groups),
        partitions=numbers,
        offsets=draw(st.lists(int64, min_size=size, max_size=size)),
        leader_epochs=draw(st.lists(epochs, min_size=size, max_size=size)),
        metadata=metadata if metadata and any(metadata) else None,
        commit_timestamp_ms=draw(timestamps_ms),
        expire_timestamp_ms=expire_ms,
    )


@st.composite
def tombstones(draw: st.DrawFn, groups=names, partitions=int32) -> OffsetTombstones:
    keys = draw(st.lists(st.tuples(groups, partitions), min_size=1, max_size=10))
    return OffsetTombstones(draw(groups), keys)


def own_batches(groups=names, partitions=int32) -> st.SearchStrategy[OwnBatch]:
    """Generates transactional commits of three producers, and markers that end the transactions."""
    producers = st.integers(1, 3)
    runs_of_one = st.lists(offset_runs(groups, partitions), min_size=1, max_size=2)
    return st.builds(TransactionalRun, producers, st.integers(0, 2), runs_of_one) | st.builds(
        MarkerRun, producers, st.just(0), st.just(0), st.booleans()
    )


members = st.builds(
    GroupMember,
    names,
    st.none() | names,
    names,
    names,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.binary(max_size=50),
    st.binary(max_size=50),
)
group_values = st.builds(
    GroupValue,
    names,
    int32,
    st.none() | names,
    st.none() | names,
    int64,
    st.lists(members, max_size=4),
)


@st.composite
def group_runs(draw: st.DrawFn, groups=names) -> GroupRun:
    return GroupRun(draw(groups), draw(st.none() | group_values))


def runs(groups=names, partitions=int32) -> st.SearchStrategy[Run]:
    return offset_runs(groups, partitions) | tombstones(groups, partitions) | group_runs(groups)


def model_group(value: GroupValue) -> ModelGroup:
    """Returns the group value as `tests.model.log_reader` represents it."""
    return ModelGroup(
        value.protocol_type,
        value.generation_id,
        value.protocol_name,
        value.leader,
        value.state_timestamp_ms,
        tuple(
            ModelMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.subscription,
                member.assignment,
            )
            for member in value.members
        ),
    )


# ------------------------------------------------------------------------------ consumer groups

_int32 = st.integers(0, 2**31 - 1)
_short_names = st.text(max_size=10)
_topic_ids = st.sampled_from([b"t" * 16, b"u" * 16, bytes(16)])
_sorted_names = st.lists(_short_names, max_size=3).map(sorted).map(tuple)
_targets = st.dictionaries(
    _topic_ids, st.sets(_int32, min_size=1, max_size=4).map(sorted).map(tuple), max_size=2
)
_epochs = st.dictionaries(
    _topic_ids,
    st.dictionaries(_int32, _int32, min_size=1, max_size=4).map(lambda d: dict(sorted(d.items()))),
    max_size=2,
)
_protocols = st.lists(st.tuples(_short_names, st.binary(max_size=9)), max_size=2).map(tuple)
_metadata = st.builds(
    MemberMetadata,
    st.none() | _short_names,
    st.none() | _short_names,
    _short_names,
    _short_names,
    _sorted_names,
    st.none() | _short_names,
    int32,
    st.none() | _short_names,
    st.none() | st.builds(ClassicMember, int32, _protocols),
)
_current = st.builds(CurrentAssignment, int32, int32, st.integers(-128, 127), _epochs, _epochs)
consumer_records = st.one_of(
    st.builds(EpochRecord, st.builds(GroupEpoch, int32, int64)),
    st.builds(TopicsRecord, st.just(True)),
    st.builds(MemberRecord, _short_names, _metadata),
    st.builds(TargetEpochRecord, st.builds(TargetEpoch, int32, int64)),
    st.builds(TargetRecord, _short_names, _targets),
    st.builds(CurrentRecord, _short_names, _current),
    st.builds(RegexRecord, _short_names, st.builds(ResolvedRegex, _sorted_names, int32, int64)),
)
"""Consumer group records with any value that Muster may write."""

_named = st.dictionaries(
    _topic_ids,
    st.tuples(_short_names, st.sets(_int32, max_size=4).map(sorted).map(tuple)),
    max_size=2,
)
_tasks = st.dictionaries(
    _short_names, st.sets(_int32, min_size=1, max_size=4).map(sorted).map(tuple), max_size=2
)
_task_epochs = st.dictionaries(
    _short_names,
    st.dictionaries(_int32, int32, min_size=1, max_size=3).map(
        lambda epochs: dict(sorted(epochs.items()))
    ),
    max_size=2,
)
_roles = st.builds(TaskRoles, _tasks, _tasks, _tasks)
_pairs = st.lists(st.tuples(_short_names, _short_names), max_size=2).map(tuple)
_names = st.lists(_short_names, max_size=2).map(tuple)
_int16s = st.lists(st.integers(-(2**15), 2**15 - 1), max_size=2).map(tuple)
_internal_topics = st.lists(
    st.builds(InternalTopic, _short_names, int32, st.integers(-(2**15), 2**15 - 1), _pairs),
    max_size=2,
).map(tuple)
_subtopologies = st.builds(
    Subtopology,
    _short_names,
    _names,
    _names,
    _internal_topics,
    _names,
    _internal_topics,
    st.lists(st.builds(CopartitionGroup, _int16s, _int16s, _int16s), max_size=2).map(tuple),
)
streams_records = st.one_of(
    st.builds(
        StreamsMemberRecord,
        _short_names,
        st.builds(
            StreamsMemberMetadata,
            st.none() | _short_names,
            st.none() | _short_names,
            _short_names,
            _short_names,
            int32,
            int32,
            _short_names,
            st.none() | st.builds(Endpoint, _short_names, st.integers(0, 65535)),
            _pairs,
        ),
    ),
    st.builds(StreamsEpochRecord, st.builds(StreamsGroupEpoch, int32, int64, int32, _pairs)),
    st.builds(StreamsTargetEpochRecord, st.builds(StreamsTargetEpoch, int32, int64)),
    st.builds(StreamsTargetRecord, _short_names, _roles),
    st.builds(
        StreamsCurrentRecord,
        _short_names,
        st.builds(
            StreamsCurrentAssignment,
            int32,
            int32,
            st.integers(-128, 127),
            _task_epochs,
            _tasks,
            _tasks,
            _task_epochs,
            _tasks,
            _tasks,
        ),
    ),
    st.builds(
        StreamsTopologyRecord,
        st.builds(Topology, int32, st.lists(_subtopologies, max_size=2).map(tuple)),
    ),
)
"""Streams group records with any value that Muster may write."""
share_records = st.one_of(
    st.builds(
        ShareMemberRecord,
        _short_names,
        st.builds(
            ShareMemberMetadata,
            st.none() | _short_names,
            _short_names,
            _short_names,
            _sorted_names,
        ),
    ),
    st.builds(ShareEpochRecord, st.builds(ShareGroupEpoch, int32, int64)),
    st.builds(ShareTargetEpochRecord, st.builds(ShareTargetEpoch, int32, int64)),
    st.builds(ShareTargetRecord, _short_names, _targets),
    st.builds(
        ShareCurrentRecord,
        _short_names,
        st.builds(ShareCurrentAssignment, int32, int32, st.integers(-128, 127), _targets),
    ),
    st.builds(
        StatePartitionsRecord,
        st.builds(
            StatePartitions,
            _named,
            _named,
            st.dictionaries(_topic_ids, _short_names, max_size=2),
        ),
    ),
)
"""Share group records with any value that Muster may write."""
