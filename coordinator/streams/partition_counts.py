"""The partition counts of the internal topics of a topology.

1. A repartition topic has the count that the topology gives it. If the topology gives none, it has
   the largest count of the inputs of a subtopology that writes to it.
2. The topics of a copartition group have equal counts. External topics must agree, and repartition
   topics get the same count.
3. A changelog has the largest count of the inputs of its subtopology, which is also the number of
   tasks of the subtopology.

If several subtopologies write to one repartition topic, or an input has no count yet, the order of
the subtopologies decides. Kafka iterates in the order of a hash map. This module uses the same
order, so that a group that moves between Muster and Kafka keeps its partition counts.

Source: Kafka 4.3.1 ``RepartitionTopics``, ``CopartitionedTopicsEnforcer``, ``ChangelogTopics``.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from coordinator.topics_image import TopicsImage
from offsets.streams_records import CopartitionGroup, InternalTopic, Subtopology, Topology
from protocol.java_hash import java_hash


class InvalidTopology(Exception):
    """Raised if the partition counts of a topology can't be computed. The text is Kafka's."""


class IncorrectlyPartitioned(Exception):
    """Raised if the partition counts of existing topics, or the counts in the topology, contradict
    each other. The text is Kafka's."""


class PartitionCounts:
    """The partition counts of the topics of a topology. All source topics of the topology must
    exist."""

    def __init__(self, topology: Topology, image: TopicsImage) -> None:
        self._topics = image.by_name
        self._decided: dict[str, int] = {}
        subtopologies = in_hash_order(topology.subtopologies)
        self._decide_repartition_topics(subtopologies)
        self._equalize(subtopologies)
        self._decided |= {
            topic.name: tasks
            for each, tasks in [(each, self.tasks(each)) for each in subtopologies]
            for topic in each.state_changelog_topics
        }

    def count(self, name: str) -> int:
        """Returns the number of partitions of a topic. An existing topic keeps its number. Raises
        InvalidTopology if the number is unknown."""
        existing = self._topics.get(name)
        if existing is not None:
            return existing.partitions
        count = self._decided.get(name)
        if count is None:
            raise InvalidTopology(f"Number of partitions is not set for topic: {name}")
        return count

    def tasks(self, subtopology: Subtopology) -> int:
        """Returns the number of tasks of a subtopology: the largest partition count of its inputs.
        Raises InvalidTopology if it has no inputs."""
        inputs = (
            *subtopology.source_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
        )
        if not inputs:
            raise InvalidTopology(
                f"No source topics found for subtopology {subtopology.subtopology_id}"
            )
        return max(self.count(name) for name in inputs)

    def configured(self, subtopology: Subtopology) -> Subtopology:
        return replace(
            subtopology,
            repartition_source_topics=self._with_counts(subtopology.repartition_source_topics),
            state_changelog_topics=self._with_counts(subtopology.state_changelog_topics),
        )

    def _with_counts(self, topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(
            topic if topic.partitions else replace(topic, partitions=self._decided[topic.name])
            for topic in topics
        )

    def _decide_repartition_topics(self, subtopologies: Sequence[Subtopology]) -> None:
        """Decides the partition counts of all repartition topics, in the same order as Kafka.

        Kafka visits all subtopologies in rounds, until a round decides nothing. In a visit, Kafka
        decides the counts of the topics that the subtopology writes, if the count of at least one
        topic that it reads is known. This method makes only one visit to each subtopology: the
        first visit in which Kafka decides.
        """
        decided = self._decided
        for each in subtopologies:
            for topic in each.repartition_source_topics:
                if topic.partitions:
                    decided[topic.name] = topic.partitions
        readers: dict[str, list[int]] = {}
        """By the name of a repartition topic: the indices of the subtopologies that read this
        topic, and that have no input topic with a known partition count yet."""
        visits: list[tuple[int, int]] = []
        """A heap of the remaining visits. A visit is a pair: the number of its round, and the index
        of the visited subtopology. A round visits the subtopologies in ascending order."""
        for index, each in enumerate(subtopologies):
            sources = each.repartition_source_topics
            if each.source_topics or any(topic.name in decided for topic in sources):
                visits.append((0, index))
            else:
                for topic in sources:
                    readers.setdefault(topic.name, []).append(index)
        while visits:
            sweep, index = heapq.heappop(visits)
            largest = self._largest_known_input(subtopologies[index])
            for sink in subtopologies[index].repartition_sink_topics:
                if sink not in decided:
                    decided[sink] = largest
                    for reader in readers.pop(sink, ()):
                        heapq.heappush(visits, (sweep + (reader <= index), reader))
        self._check_repartition_topics(subtopologies)

    def _largest_known_input(self, subtopology: Subtopology) -> int:
        counts = [self._topics[name].partitions for name in subtopology.source_topics]
        counts += [
            self._decided[topic.name]
            for topic in subtopology.repartition_source_topics
            if topic.name in self._decided
        ]
        return max(counts)

    def _check_repartition_topics(self, subtopologies: Sequence[Subtopology]) -> None:
        for each in subtopologies:
            if any(sink not in self._decided for sink in each.repartition_sink_topics):
                raise InvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. There may"
                    " be loops in the topology that cannot be resolved."
                )
        for each in subtopologies:
            if any(topic.name not in self._decided for topic in each.repartition_source_topics):
                raise InvalidTopology(
                    "Failed to compute number of partitions for all repartition topics, because a"
                    " repartition source topic is never used as a sink topic."
                )

    def _equalize(self, subtopologies: Sequence[Subtopology]) -> None:
        """Sets the counts of the repartition topics in each copartition group to the count of the
        group."""
        flexible: set[str] = set()
        fixed: set[str] = set()
        for each in subtopologies:
            for topic in each.repartition_source_topics:
                (fixed if topic.partitions else flexible).add(topic.name)
        fixed_counts = {self.count(name) for name in fixed}
        for each in subtopologies:
            for group in each.copartition_groups:
                repartition: dict[str, int] = {}
                external: dict[str, int] = {}
                for name in _names(each, group):
                    is_repartition = name in fixed or name in flexible
                    (repartition if is_repartition else external)[name] = self.count(name)
                if external:
                    count = _common(external.values(), external)
                elif not repartition:
                    continue
                elif fixed:  # as in Kafka, topics with own counts outside the group count too
                    count = _common(fixed_counts, repartition)
                else:
                    count = max(repartition.values())
                self._set(repartition, count, fixed)

    def _set(self, repartition: Mapping[str, int], count: int, fixed: Container[str]) -> None:
        for name, own in sorted(repartition.items()):
            if name in fixed and own != count:
                raise IncorrectlyPartitioned(
                    f"Number of partitions [{own}] of repartition topic [{name}] doesn't match"
                    f" number of partitions [{count}] of the source topic."
                )
            self._decided[name] = count


def _names(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    return {subtopology.source_topics[index] for index in group.source_topics} | {
        subtopology.repartition_source_topics[index].name
        for index in group.repartition_source_topics
    }


def _common(counts: Iterable[int], shown: dict[str, int]) -> int:
    """Returns the number that all ``counts`` are equal to. If they differ, raises
    IncorrectlyPartitioned; its message lists the topics and partition counts in ``shown``."""
    distinct = set(counts)
    if len(distinct) > 1:
        text = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise IncorrectlyPartitioned(
            f"Following topics do not have the same number of partitions: [{{{text}}}]"
        )
    return distinct.pop()


def in_hash_order(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    """Returns the subtopologies in the order in which a Java ``HashMap`` iterates over their ids.

    The number of slots is the lowest power of two, but at least 16, with which at most three
    quarters of the slots are filled.
    """
    given = list(subtopologies)
    slots = 16
    while 4 * len(given) > 3 * slots:
        slots *= 2

    def slot(subtopology: Subtopology) -> int:
        value = java_hash(subtopology.subtopology_id) & 0xFFFFFFFF
        return (value ^ value >> 16) & (slots - 1)

    return sorted(given, key=slot)
