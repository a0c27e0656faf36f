"""The facts about a streams group include a problem with its topics, also after all members have
left."""

from __future__ import annotations

from broker.metrics.kind_facts import streams_facts
from tests.coordinator.streams.groups import GROUP, STATEFUL, StreamsGroups


def test_missing_source_topic_is_reported_until_it_exists_even_if_all_members_leave() -> None:
    groups = StreamsGroups()
    groups.topics(t=-1)
    groups.join("a", topology=STATEFUL)
    view, began = groups.shard.view.groups[GROUP], groups.now
    groups.pass_ms(11_000)
    groups.send("a", -1)
    assert view.is_empty

    facts = streams_facts(view)

    assert facts is not None
    assert (facts.topics, facts.since_ms) == (("t",), began.wall_ms)
    groups.topics(t=2)  # now only internal topics are missing
    assert streams_facts(view) is None


def test_topic_deleted_after_the_last_member_left_a_streams_group_is_not_reported() -> None:
    groups = StreamsGroups()
    groups.stable("a")
    groups.send("a", -1)
    groups.topics(t=-1)

    assert streams_facts(groups.shard.view.groups[GROUP]) is None
