"""The topics that a topology needs, and the tasks that follow from their partition counts.

The topology of an application names its source topics, which must exist, and its internal topics:
repartition topics and changelogs. `configure` determines the partition counts of the internal
topics and the number of tasks of each subtopology. The rules of the counts are in
`coordinator/streams/partition_counts.py`.

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
"""The status code in a StreamsGroupHeartbeat response if internal topics are missing. Source: Kafka
4.3.1 ``StreamsGroupHeartbeatResponse.Status``."""
_NAMED_MAX: Final = 3
"""The maximum number of topics that the text of a status names."""
_DEFAULT_REPLICATION_FACTOR: Final = -1


class ConfiguredTopology(NamedTuple):
    """A topology with the partition counts of its topics, according to one topics image."""

    tasks: Mapping[str, SubtopologyTasks] = {}
    """The tasks of each subtopology, by subtopology id in ascending order. Empty if the topology is
    not ready; ``status`` or ``invalid`` then has the reason."""
    status: tuple[tuple[int, str], ...] = ()
    """The status codes that members get, each with its text; empty if the topology is ready."""
    missing_internal: tuple[InternalTopic, ...] = ()
    """The internal topics that must be created, ordered by name. A replication factor of -1 means
    the broker's default, as in a CreateTopics request."""
    required: frozenset[str] = frozenset()
    """The topics that the tasks read and write: source topics, repartition source topics and
    changelogs."""
    subtopologies: tuple[Subtopology, ...] = ()
    """The subtopologies with the partition counts of their internal topics, ordered by id; empty if
    the counts are unknown."""
    invalid: str | None = None
    """The reason why the topology can't become ready with any topics; None if it can. The heartbeat
    gets STREAMS_INVALID_TOPOLOGY with this text. A loop in the topology is detected only when all
    source topics exist."""


def invalid(topology: Topology) -> str | None:
    """Returns the message of STREAMS_INVALID_TOPOLOGY for an invalid topology; None for a valid
    topology. A handler calls `invalid_names` before it authorizes the topology, and
    `invalid_structure` afterwards."""
    return invalid_names(topology) or invalid_structure(topology)


def invalid_names(topology: Topology) -> str | None:
    """Returns the error message if the topology names an internal topic of Kafka or has an illegal
    topic name; else None."""
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
    """Returns the error message for a topology that contradicts itself, or None.

    Kafka checks only that changelog topics have no partition count. To any other contradictory
    topology Kafka replies UNKNOWN_SERVER_ERROR, at the latest when all source topics exist.
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
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _out_of_range(indexes: Sequence[int], topics: Collection[object]) -> bool:
    return any(not 0 <= index < len(topics) for index in indexes)


def named_topics(topology: Topology) -> list[str]:
    return list(dict.fromkeys(topic for each in topology.subtopologies for topic in _named(each)))


def _named(subtopology: Subtopology) -> Iterator[str]:
    """Yields all topics of the subtopology, in Kafka's order."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)
    yield from (topic.name for topic in subtopology.state_changelog_topics)


def required_topics(topology: Topology) -> frozenset[str]:
    """Returns the topics that the tasks read and write: source topics, repartition source topics
    and changelogs."""
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
    """Determines the partition counts of the topology's topics, the tasks, and the missing topics.
    The topology is not ready while a source topic is missing. Missing internal topics get a
    computed partition count; existing ones must already have this count."""
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

    Raises IncorrectlyPartitioned if an internal topic exists with another partition count than the
    topology needs. The error names the first such topic in order of name; Kafka's error may name
    any of them.
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
    """Returns the first three names, and how many more there are."""
    named = ", ".join(names[:_NAMED_MAX])
    others = len(names) - _NAMED_MAX
    return f"{named} and {others} additional topics" if others > 0 else named
