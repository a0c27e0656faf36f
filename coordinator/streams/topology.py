"""The topics that a topology needs, and the tasks that follow from their partition counts.

The topology of an application names its source topics, which must exist, and its internal topics:
repartition topics and changelogs. `configure` determines the partition counts of the internal
topics and the number of tasks of each subtopology. `coordinator/streams/partition_counts.py` has
the rules of the counts.

Source: Kafka 4.3.1 ``InternalTopicManager``, ``KafkaApis.handleStreamsGroupHeartbeat``,
``GroupCoordinatorService.throwIfInvalidTopology``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from coordinator.assignors.sticky_tasks import SubtopologyTasks
from coordinator.streams.partition_counts import (
    IncorrectlyPartitioned,
    InvalidTopology,
    PartitionCounts,
)
from coordinator.topics_image import TopicsImage
from offsets.streams_records import InternalTopic, Subtopology, Topology
from protocol.topic_names import INTERNAL_TOPICS, is_legal

MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
"""Codes of the statuses in a StreamsGroupHeartbeat response. Source: Kafka 4.3.1
``StreamsGroupHeartbeatResponse.Status``."""
_NAMED_MAX: Final = 3
"""The number of topics that a status names."""
_DEFAULT_REPLICATION_FACTOR: Final = -1


class ConfiguredTopology(NamedTuple):
    """A topology together with the partition counts of its topics in one image."""

    tasks: Mapping[str, SubtopologyTasks] = {}
    """The tasks of each subtopology, by subtopology id in ascending order; empty if ``status`` or
    ``invalid`` says why the topology is not ready."""
    status: tuple[tuple[int, str], ...] = ()
    """The status code and detail to report to the members; empty if the topology is ready."""
    missing_internal: tuple[InternalTopic, ...] = ()
    """The internal topics to create, ordered by name. A replication factor of -1 is the broker's
    default, as in a CreateTopics request."""
    required: frozenset[str] = frozenset()
    """The topics that the tasks read and write: sources, repartition sources and changelogs."""
    subtopologies: tuple[Subtopology, ...] = ()
    """The subtopologies with the determined partition counts of their internal topics, ordered by
    id; empty if the counts are unknown."""
    invalid: str | None = None
    """The reason for which no topics could make the topology ready: the heartbeat gets
    STREAMS_INVALID_TOPOLOGY with this text. Loops are found only when all source topics exist."""


def invalid(topology: Topology) -> str | None:
    """Returns the message of STREAMS_INVALID_TOPOLOGY, or None for a valid topology.

    The checks of names come before a topology is authorized, and the other checks come later.
    """
    return invalid_names(topology) or invalid_structure(topology)


def invalid_names(topology: Topology) -> str | None:
    """Returns the message for Kafka's internal topics and illegal names, or None."""
    names = named_topics(topology)
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        return (
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is"
            " prohibited."
        )
    illegal = [name for name in names if not is_legal(name)]
    if illegal:
        return f"Topic names {','.join(illegal)} are not valid topic names."
    return None


def invalid_structure(topology: Topology) -> str | None:
    """Returns the message for a topology that contradicts itself, or None.

    Kafka has only the first check. To the other topologies, it replies UNKNOWN_SERVER_ERROR, at
    the latest when all source topics exist.
    """
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                return (
                    f"Changelog topic {topic.name} must have an undefined partition count, but it"
                    f" is set to {topic.partitions}."
                )
    subtopology_id = _repeated([each.subtopology_id for each in topology.subtopologies])
    if subtopology_id is not None:
        return f"The topology has subtopology {subtopology_id} twice."
    for each in topology.subtopologies:
        problem = _structure_problem(each)
        if problem is not None:
            return f"Subtopology {each.subtopology_id} {problem}."
    return None


def _structure_problem(subtopology: Subtopology) -> str | None:
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        name = _repeated([topic.name for topic in topics])
        if name is not None:
            return f"has the internal topic {name} twice"
        for topic in topics:
            if topic.partitions < 0:
                return f"has a negative partition count for topic {topic.name}"
            key = _repeated([key for key, _ in topic.configs])
            if key is not None:
                return f"has the config {key} of topic {topic.name} twice"
    for group in subtopology.copartition_groups:
        if _out_of_range(group.source_topics, subtopology.source_topics) or _out_of_range(
            group.repartition_source_topics, subtopology.repartition_source_topics
        ):
            return "has a copartition group with a topic that does not exist"
    return None


def _repeated(names: Sequence[str]) -> str | None:
    """Returns the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _out_of_range(indexes: Sequence[int], topics: Collection[object]) -> bool:
    return any(not 0 <= index < len(topics) for index in indexes)


def named_topics(topology: Topology) -> list[str]:
    """Returns all topics that the topology names, each once."""
    return list(dict.fromkeys(topic for each in topology.subtopologies for topic in _named(each)))


def _named(subtopology: Subtopology) -> Iterator[str]:
    """Yields all topics of the subtopology, in Kafka's order."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)
    yield from (topic.name for topic in subtopology.state_changelog_topics)


def required_topics(topology: Topology) -> frozenset[str]:
    """Returns the topics that the tasks read and write: sources, repartition sources and
    changelogs."""
    return frozenset(
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )


def configure(topology: Topology, image: TopicsImage) -> ConfiguredTopology:
    """Determines the partition counts of the topology's topics, its tasks, and the topics that are
    missing.

    All source topics must exist. Missing internal topics get counts; existing ones must have them.
    """
    required = required_topics(topology)
    problem = invalid_structure(topology)
    if problem is not None:  # of a group that Kafka wrote
        return ConfiguredTopology(required=required, invalid=problem)
    absent = {
        name
        for each in topology.subtopologies
        for name in each.source_topics
        if name not in image.by_name
    }
    if absent:
        detail = f"Source topics {_summary(sorted(absent))} are missing."
        return ConfiguredTopology(status=((MISSING_SOURCE_TOPICS, detail),), required=required)
    try:
        counts = PartitionCounts(topology, image)
        subtopologies = tuple(
            counts.configured(each)
            for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        )
        missing = _missing(subtopologies, image)
    except InvalidTopology as error:
        return ConfiguredTopology(required=required, invalid=str(error))
    except IncorrectlyPartitioned as error:
        status = INCORRECTLY_PARTITIONED_TOPICS, str(error)
        return ConfiguredTopology(status=(status,), required=required)
    if missing:
        detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
        return ConfiguredTopology(
            status=((MISSING_INTERNAL_TOPICS, detail),),
            missing_internal=missing,
            required=required,
            subtopologies=subtopologies,
        )
    tasks = {
        each.subtopology_id: SubtopologyTasks(
            counts.tasks(each), stateful=bool(each.state_changelog_topics)
        )
        for each in subtopologies
    }
    return ConfiguredTopology(tasks, required=required, subtopologies=subtopologies)


def _missing(subtopologies: Sequence[Subtopology], image: TopicsImage) -> tuple[InternalTopic, ...]:
    """Returns the internal topics that do not exist, ordered by name.

    If an internal topic exists with another partition count, raises IncorrectlyPartitioned for the
    first such name; Kafka selects one of them in the order of a hash map.
    """
    expected: dict[str, InternalTopic] = {}
    for each in subtopologies:
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            expected[topic.name] = topic
    missing = []
    for name, topic in sorted(expected.items()):
        existing = image.by_name.get(name)
        if existing is None:
            factor = topic.replication_factor or _DEFAULT_REPLICATION_FACTOR
            missing.append(replace(topic, replication_factor=factor))
        elif existing.partitions != topic.partitions:
            raise IncorrectlyPartitioned(
                f"Existing topic {name} has different number of partitions: expected"
                f" {topic.partitions}, found {existing.partitions}"
            )
    return tuple(missing)


def _summary(names: Sequence[str]) -> str:
    """Returns the first three names, and the number of the other ones."""
    named = ", ".join(names[:_NAMED_MAX])
    others = len(names) - _NAMED_MAX
    return f"{named} and {others} additional topics" if others > 0 else named
