"""``OffsetCache.expiring`` returns the exact time at which each offset expires."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsets.cache import OffsetCache
from offsets.expiry import GroupCondition, rule_for
from offsets.runs import OffsetRun, OffsetTombstones

RETENTION_MS = 1000

conditions = st.builds(
    GroupCondition,
    st.sampled_from([None, "consumer", "connect"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([-1, 300, 2000]),
    st.sampled_from([None, (), ("a",), ("a", "b")]),
    st.sampled_from([-1, 500, 1500]),
)
commits = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from([0, 1, 5, 70, 5000]),
        st.integers(0, 2000),
        st.sampled_from([-1, -1, -1, 700, 2500]),
        st.booleans(),
    ),
    max_size=12,
)


@given(conditions, commits)
def test_offset_expires_exactly_at_its_predicted_time(
    condition: GroupCondition, committed: list[tuple[str, int, int, int, bool]]
) -> None:
    cache = OffsetCache()
    for offset, (topic, partition, commit_ms, expire_ms, removed) in enumerate(committed):
        cache.replay(
            OffsetRun("g", topic, [partition], [offset], [-1], None, commit_ms, expire_ms), offset
        )
        if removed:
            cache.replay(OffsetTombstones("g", [(topic, partition)]), offset)
    foretold = {
        (topic, partition): at_ms
        for topic, partition, at_ms, _, _ in cache.expiring("g", condition, RETENTION_MS, 10**9)
    }
    for wall_ms in sorted({*foretold.values(), *(at - 1 for at in foretold.values()), 0, 1200}):
        due = {key for key, at_ms in foretold.items() if at_ms <= wall_ms}
        rule = rule_for(condition)
        assert due == {
            (topic, partition)
            for topic in (cache.topics("g") if rule is not None else ())
            if cache.may_expire("g", topic, rule, RETENTION_MS, wall_ms)
            for partition, _ in cache.due(
                "g", topic, cache.partitions("g", topic), rule, RETENTION_MS, wall_ms
            )
        }
        until = cache.expiring("g", condition, RETENTION_MS, wall_ms)
        assert {(topic, partition) for topic, partition, *_ in until} == due
