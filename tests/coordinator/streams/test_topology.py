"""Topologies get the partition counts, tasks and messages of Kafka 4.3.1."""

from __future__ import annotations

from coordinator.assignors.sticky_tasks import SubtopologyTasks
from coordinator.streams.topology import MISSING_INTERNAL_TOPICS, MISSING_SOURCE_TOPICS, configure
from coordinator.topics_image import Topic, TopicsImage
from offsets.streams_records import InternalTopic, Subtopology, Topology

COUNTING = Topology(
    1,
    (
        Subtopology("0", ("lines",), repartition_sink_topics=("words",)),
        Subtopology(
            "1",
            repartition_source_topics=(InternalTopic("words"),),
            state_changelog_topics=(InternalTopic("counts", 0, 3),),
        ),
    ),
)


def image(**partitions: int) -> TopicsImage:
    """Returns an image with topics of these partition counts."""
    return TopicsImage(
        Topic(name.encode().ljust(16, b"\0"), name, count) for name, count in partitions.items()
    )


def test_topology_without_its_source_topics_has_status_1() -> None:
    configured = configure(COUNTING, image(words=3))
    assert configured.status == ((MISSING_SOURCE_TOPICS, "Source topics lines are missing."),)
    assert (configured.tasks, configured.missing_internal) == ({}, ())
    assert configured.required == {"lines", "words", "counts"}


def test_missing_internal_topics_get_the_partitions_of_their_input() -> None:
    configured = configure(COUNTING, image(lines=6))
    assert configured.status == (
        (MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts, words"),
    )
    assert configured.tasks == {}
    assert configured.missing_internal == (
        InternalTopic("counts", 6, 3),
        InternalTopic("words", 6, -1),
    )


def test_complete_topology_has_tasks() -> None:
    configured = configure(COUNTING, image(lines=6, words=6, counts=6))
    assert configured.status == ()
    assert configured.tasks == {"0": SubtopologyTasks(6, False), "1": SubtopologyTasks(6, True)}
