"""Random topologies of streams groups, and their comparison with the results of Kafka's classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from random import Random
from typing import Any, NamedTuple

from coordinator.streams.endpoints import topic_partitions
from coordinator.streams.topology import (
    MISSING_INTERNAL_TOPICS,
    configure,
    invalid_names,
    invalid_structure,
)
from coordinator.topics_image import Topic, TopicsImage
from offsets.streams_records import CopartitionGroup, InternalTopic, Subtopology, Tasks, Topology

Kafka = Mapping[str, Any]
"""A result of Kafka's classes, as tests/interop/programs/StreamsClasses.java printed it."""
INVALID = "StreamsInvalidTopologyException"


class TopologyCase(NamedTuple):
    """A topology, the partition counts of existing topics, and the tasks of one member."""

    topology: Topology
    topics: Mapping[str, int]
    tasks: Tasks
    is_strange: bool
    """True if the topology may be inconsistent, or may have names that no client sends."""

    def image(self) -> TopicsImage:
        return image(self.topics)

    def given(self) -> dict[str, Any]:
        """Returns the case as input of StreamsClasses.java."""
        return {
            "call": "configure",
            "subtopologies": [asdict(each) for each in self.topology.subtopologies],
            "topics": self.topics,
            "tasks": self.tasks,
        }


def image(topics: Mapping[str, int]) -> TopicsImage:
    return TopicsImage(
        Topic(name.encode()[:16].ljust(16, b"\0"), name, count) for name, count in topics.items()
    )


def difference(case: TopologyCase, kafka: Kafka) -> str | None:
    """Returns the difference between Muster's and Kafka's result as text, or None if they are
    equal."""
    problem = invalid_names(case.topology)
    if kafka.get("internal") or kafka.get("illegal"):
        named = kafka["internal"] or kafka["illegal"]
        names = ",".join(dict.fromkeys(named))
        return None if problem is not None and names in problem else f"{names}: {problem}"
    if problem is not None:
        return problem
    problem = invalid_structure(case.topology)
    configured = configure(case.topology, case.image()) if problem is None else None
    if configured is not None:
        problem = configured.invalid
    if "error" in kafka:
        same = problem == kafka["message"] if kafka["error"] == INVALID else problem is not None
        if case.is_strange and configured is None and not kafka["message"].startswith("Changelog"):
            same = True  # Kafka finds a loop first, or has no message for the contradiction
        return None if same else f"{kafka['error']} {kafka['message']}: {problem}"
    if configured is None and case.is_strange and kafka.get("status") in (1, 2):
        return None  # Kafka refuses it when the topics are as expected
    if configured is None or problem is not None:
        return f"Muster refuses it: {problem}"
    found = {
        "required": sorted(configured.required),
        "status": configured.status[0][0] if configured.status else None,
        "ready": not configured.status,
        "missing": {
            topic.name: {
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "configs": dict(topic.configs),
            }
            for topic in configured.missing_internal
        },
    }
    if not configured.status:
        found["tasks"] = {name: list(each) for name, each in configured.tasks.items()}
        parts = topic_partitions(case.tasks, configured, case.image())
        found["endpoint"] = [[name, list(partitions)] for name, partitions in parts]
        kafka = {**kafka, "endpoint": _existing(kafka["endpoint"], case.topics)}
    for key, value in found.items():
        if kafka.get(key) != value:
            return f"{key}: Kafka {kafka.get(key)}, Muster {value}"
    if configured.status and not _same_detail(*configured.status[0], kafka["detail"]):
        return f"detail: Kafka {kafka['detail']}, Muster {configured.status[0][1]}"
    return None


def _existing(parts: Iterable[tuple[str, Sequence[int]]], topics: Mapping[str, int]) -> list[Any]:
    """Returns the existing partitions of an endpoint. Kafka 4.3.1 also returns partitions that do
    not exist."""
    existing = ([name, [each for each in found if each < topics[name]]] for name, found in parts)
    return [part for part in existing if part[1]]


def _same_detail(status: int, detail: str, kafka: str) -> bool:
    """Returns True if two status texts are equal, apart from the names of internal topics. If
    several topics are missing or have wrong counts, Kafka names them in hash order."""
    if status == MISSING_INTERNAL_TOPICS:
        counted = " and ", ", "
        return all(detail.count(text) == kafka.count(text) for text in counted)
    for text in ("Existing topic ", "Number of partitions "):
        if detail.startswith(text):
            return kafka.startswith(text)
    return detail == kafka


class _Draw:
    """Draws one random case."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topics: dict[str, int] = {}
        self.has_loops = self.chance(0.15)
        self.is_strange = self.chance(0.1)
        self.counts = (4,) if self.chance(0.3) else (1, 2, 3, 4, 6)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def some(self, names: Iterable[str], most: int) -> list[str]:
        given = sorted(set(names))
        return self.random.sample(given, self.random.randint(0, min(most, len(given))))

    def case(self) -> TopologyCase:
        ids = list(range(self.random.randint(1, 6)))
        if self.chance(0.15):
            ids = self.random.sample(range(40), self.random.randint(9, 30))
        externals = [f"in-{number}" for number in range(self.random.randint(1, 5))]
        for name in externals:
            if not self.chance(0.02):
                self.topics[name] = self.random.choice(self.counts)
        edges = self._edges(len(ids))
        subtopologies = [
            self._subtopology(str(each), place, externals, edges) for place, each in enumerate(ids)
        ]
        if self.chance(0.5):
            self.random.shuffle(subtopologies)
        if self.is_strange:
            subtopologies = [self._strange(each) for each in subtopologies]
        topology = Topology(1, tuple(subtopologies))
        self._create_internal_topics(topology)
        tasks = {
            each.subtopology_id: tuple(sorted(self.random.sample(range(4), 2)))
            for each in subtopologies
            if self.chance(0.5)
        }
        return TopologyCase(topology, self.topics, tasks, self.is_strange)

    def _edges(self, places: int) -> dict[str, tuple[list[int], list[int]]]:
        """Returns for each repartition topic the subtopologies that write it and the subtopologies
        that read it."""
        edges = {}
        for number in range(self.random.randint(0, 2 * places - 1)):
            writers = self.random.sample(range(places), 1 if self.chance(0.8) else min(2, places))
            later = [place for place in range(places) if place > max(writers)]
            if self.has_loops and self.chance(0.3):
                later = list(range(places))
            if self.chance(0.01):
                writers = []
            if later:
                edges[f"r-{number}"] = writers, [self.random.choice(later)]
        return edges

    def _subtopology(
        self,
        subtopology_id: str,
        place: int,
        externals: list[str],
        edges: Mapping[str, tuple[list[int], list[int]]],
    ) -> Subtopology:
        reads = [name for name, (_, readers) in edges.items() if place in readers]
        sources = self.some(externals, 3)
        if not sources and not reads and not self.chance(0.02):
            sources = [self.random.choice(externals)]
        repartition = [self._repartition(name) for name in reads]
        changelogs = [
            InternalTopic(f"log-{subtopology_id}-{number}", 0, self.random.choice((0, 3)))
            for number in range(self.random.choice((0, 0, 1, 2)))
        ]
        if sources and self.chance(0.05):  # an optimized table reads its own source topic
            changelogs.append(InternalTopic(sources[0]))
        groups = [
            CopartitionGroup(self._indexes(len(sources)), (), self._indexes(len(repartition)))
            for _ in range(self.random.choice((0, 0, 1, 1, 2)))
        ]
        return Subtopology(
            subtopology_id,
            tuple(sources),
            (),
            tuple(changelogs),
            tuple(name for name, (writers, _) in edges.items() if place in writers),
            tuple(repartition),
            tuple(groups),
        )

    def _repartition(self, name: str) -> InternalTopic:
        partitions = self.random.choice(self.counts) if self.chance(0.2) else 0
        configs = (("cleanup.policy", "delete"),) if self.chance(0.5) else ()
        return InternalTopic(name, partitions, self.random.choice((0, 0, 2)), configs)

    def _indexes(self, number: int) -> tuple[int, ...]:
        return tuple(index for index in range(number) if self.chance(0.6))

    def _strange(self, each: Subtopology) -> Subtopology:
        """Returns the subtopology with one change that Kafka refuses."""
        changed = {field.name: getattr(each, field.name) for field in fields(each)}
        kind = self.random.randrange(8)
        if kind == 0:
            changed["source_topics"] += (self.random.choice(("__consumer_offsets", "a b", "..")),)
        elif kind == 1:
            changed["state_changelog_topics"] += (InternalTopic("log-x", 3),)
        elif kind == 2 and each.repartition_source_topics:
            first = each.repartition_source_topics[0]
            changed["repartition_source_topics"] += (first,)
        elif kind == 3:
            changed["copartition_groups"] += (CopartitionGroup((9,)),)
        elif kind == 4:
            changed["repartition_source_topics"] += (InternalTopic("r-minus", -2),)
        elif kind == 5:
            configs = (("a", "1"), ("a", "2"))
            changed["state_changelog_topics"] += (InternalTopic("log-y", 0, 0, configs),)
        elif kind == 6:
            changed["subtopology_id"] = "0"
        return Subtopology(**changed)

    def _create_internal_topics(self, topology: Topology) -> None:
        if self.chance(0.3) or invalid_structure(topology) is not None:
            return
        expected = configure(topology, image(self.topics)).missing_internal
        for topic in expected:
            if not self.chance(0.1):
                self.topics[topic.name] = topic.partitions
        if expected and self.chance(0.2):
            self.topics[self.random.choice(expected).name] = self.random.choice(self.counts)
        if self.chance(0.1):  # a source topic got more partitions after the creation
            name = self.random.choice(sorted(self.topics) or ["in-0"])
            self.topics[name] = self.topics.get(name, 0) + 1


def random_case(seed: int) -> TopologyCase:
    """Returns a random topology, which is mostly valid."""
    return _Draw(seed).case()
