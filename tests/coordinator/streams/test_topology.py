"""Topologies get the same partition counts, tasks and messages as in Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.assignors.sticky_tasks import SubtopologyTasks
from coordinator.streams import partition_counts, topology
from coordinator.streams.endpoints import topic_partitions
from coordinator.streams.partition_counts import PartitionCounts
from coordinator.streams.topology import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    ConfiguredTopology,
    configure,
    invalid,
)
from offsets.streams_records import CopartitionGroup, InternalTopic, Subtopology, Topology
from tests.coordinator.assignors import kafka_sticky
from tests.coordinator.assignors.kafka_sticky import JAVA
from tests.coordinator.assignors.task_groups import random_lives
from tests.coordinator.streams import kafka_results
from tests.coordinator.streams.topologies import difference, image, random_case
from tests.instructions import instructions


def of(*subtopologies: Subtopology) -> Topology:
    return Topology(1, subtopologies)


def part(name: str, *sources: str, **fields: Any) -> Subtopology:
    """Returns a subtopology. ``reads`` are its repartition topics, and ``logs`` its changelog
    topics. A topic that is given as a string has no partition count."""
    reads, logs = fields.pop("reads", ()), fields.pop("logs", ())
    return Subtopology(
        name,
        sources,
        state_changelog_topics=_topics(logs),
        repartition_source_topics=_topics(reads),
        repartition_sink_topics=tuple(fields.pop("writes", ())),
        copartition_groups=tuple(fields.pop("together", ())),
    )


def _topics(given: tuple[str | InternalTopic, ...]) -> tuple[InternalTopic, ...]:
    return tuple(InternalTopic(each) if isinstance(each, str) else each for each in given)


COUNTING = of(
    part("0", "lines", writes=["words"]),
    part("1", reads=("words",), logs=(InternalTopic("counts", 0, 3),)),
)


def counts(configured: ConfiguredTopology) -> dict[str, int]:
    """Returns the partition counts of the internal topics that do not exist."""
    return {topic.name: topic.partitions for topic in configured.missing_internal}


def test_topology_has_status_1_when_source_topics_do_not_exist() -> None:
    configured = configure(COUNTING, image({"words": 3}))
    assert configured.status == ((MISSING_SOURCE_TOPICS, "Source topics lines are missing."),)
    assert (configured.tasks, configured.missing_internal) == ({}, ())
    assert configured.required == {"lines", "words", "counts"}


def test_status_of_a_topology_names_three_missing_topics_and_counts_the_others() -> None:
    configured = configure(of(part("0", "e", "d", "c", "b", "a")), image({"b": 1}))
    assert configured.status == (
        (MISSING_SOURCE_TOPICS, "Source topics a, c, d and 1 additional topics are missing."),
    )


def test_missing_internal_topics_get_the_partition_count_of_their_input_topics() -> None:
    configured = configure(COUNTING, image({"lines": 6}))
    assert configured.status == (
        (MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts, words"),
    )
    assert configured.tasks == {}
    assert configured.missing_internal == (
        InternalTopic("counts", 6, 3),
        InternalTopic("words", 6, -1),
    )


def test_number_of_tasks_is_the_largest_partition_count_of_the_input_topics() -> None:
    configured = configure(COUNTING, image({"lines": 6, "words": 6, "counts": 6}))
    assert configured.status == ()
    assert configured.tasks == {"0": SubtopologyTasks(6, False), "1": SubtopologyTasks(6, True)}
    two = of(part("0", "lines", "more", logs=("log",)))
    configured = configure(two, image({"lines": 2, "more": 5, "log": 5}))
    assert configured.tasks == {"0": SubtopologyTasks(5, True)}


def test_internal_topics_of_a_configured_topology_have_settings_and_partition_counts() -> None:
    log = InternalTopic("log", 0, 0, (("cleanup.policy", "compact"),))
    configured = configure(of(part("0", "in", logs=(log,))), image({"in": 3}))
    assert configured.missing_internal[0].configs == log.configs
    assert configured.subtopologies == (
        part("0", "in", logs=(InternalTopic("log", 3, 0, log.configs),)),
    )


def test_repartition_topic_keeps_the_partition_count_of_the_topology() -> None:
    configured = configure(
        of(part("0", "in", writes=["r"]), part("1", reads=(InternalTopic("r", 7),), logs=("log",))),
        image({"in": 3}),
    )
    assert counts(configured) == {"r": 7, "log": 7}


def test_partition_counts_propagate_through_a_chain_of_repartition_topics() -> None:
    chain = of(
        part("2", reads=("b",), logs=("log",)),
        part("1", reads=("a",), writes=["b"]),
        part("0", "in", writes=["a"]),
    )
    assert counts(configure(chain, image({"in": 5}))) == {"a": 5, "b": 5, "log": 5}


def test_cycle_of_repartition_topics_without_a_partition_count_is_invalid() -> None:
    loop = of(part("0", reads=("a",), writes=["b"]), part("1", reads=("b",), writes=["a"]))
    configured = configure(loop, image({}))
    assert configured.invalid == (
        "Failed to compute number of partitions for all repartition topics. There may be loops in"
        " the topology that cannot be resolved."
    )
    assert (configured.status, configured.tasks) == ((), {})


def test_repartition_topics_in_a_cycle_get_the_partition_count_that_one_of_them_has() -> None:
    loop = of(
        part("0", reads=(InternalTopic("a", 4),), writes=["b"]),
        part("1", reads=("b",), writes=["a"]),
    )
    assert counts(configure(loop, image({}))) == {"a": 4, "b": 4}


def test_repartition_topic_that_no_subtopology_writes_is_invalid() -> None:
    configured = configure(of(part("0", "in", reads=("a",))), image({"in": 2}))
    assert configured.invalid == (
        "Failed to compute number of partitions for all repartition topics, because a repartition"
        " source topic is never used as a sink topic."
    )


def test_subtopology_without_a_source_topic_is_invalid() -> None:
    configured = configure(of(part("0", "in"), part("1", logs=("log",))), image({"in": 2}))
    assert configured.invalid == "No source topics found for subtopology 1"


def test_copartitioned_repartition_topic_has_as_many_partitions_as_the_external_topics() -> None:
    joining = of(
        part("0", "small", writes=["r"]),
        part("1", "in", reads=("r",), together=[CopartitionGroup((0,), (), (0,))]),
    )
    assert counts(configure(joining, image({"small": 2, "in": 6}))) == {"r": 6}


def test_copartitioned_repartition_topics_get_the_largest_partition_count() -> None:
    joining = of(
        part("0", "small", writes=["r"]),
        part("1", "big", writes=["s"]),
        part("2", reads=("r", "s"), together=[CopartitionGroup((), (), (0, 1))]),
    )
    assert counts(configure(joining, image({"small": 2, "big": 6}))) == {"r": 6, "s": 6}


def test_copartitioned_source_topics_with_different_partition_counts_have_status_2() -> None:
    joining = of(part("0", "b", "a", together=[CopartitionGroup((0, 1))]))
    configured = configure(joining, image({"a": 2, "b": 3}))
    assert configured.status == (
        (
            INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=2, b=3}]",
        ),
    )
    assert (configured.tasks, configured.subtopologies) == ({}, ())


def test_topology_has_status_2_when_copartitioned_topics_differ_in_partition_count() -> None:
    joining = of(
        part("0", "in", writes=["r"]),
        part(
            "1", "in", reads=(InternalTopic("r", 2),), together=[CopartitionGroup((0,), (), (0,))]
        ),
    )
    assert configure(joining, image({"in": 6})).status == (
        (
            INCORRECTLY_PARTITIONED_TOPICS,
            "Number of partitions [2] of repartition topic [r] doesn't match number of partitions"
            " [6] of the source topic.",
        ),
    )


def test_copartitioned_repartition_topic_with_a_wrong_partition_count_has_status_2() -> None:
    joining = of(
        part("0", "in", writes=["r"]),
        part(
            "1", "in", reads=(InternalTopic("r", 4),), together=[CopartitionGroup((0,), (), (0,))]
        ),
    )
    ((status, detail),) = configure(joining, image({"in": 4, "r": 6})).status
    assert status == INCORRECTLY_PARTITIONED_TOPICS
    assert detail.startswith("Number of partitions [6] of repartition topic [r]")


def test_existing_internal_topic_with_another_partition_count_has_status_2() -> None:
    configured = configure(COUNTING, image({"lines": 6, "words": 6, "counts": 3}))
    assert configured.status == (
        (
            INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic counts has different number of partitions: expected 6, found 3",
        ),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (COUNTING, None),
        (
            of(part("0", "in", logs=(InternalTopic("log", 3),))),
            "Changelog topic log must have an undefined partition count, but it is set to 3.",
        ),
        (
            of(part("0", "__consumer_offsets", "in", writes=["__transaction_state"])),
            "Use of Kafka internal topics __consumer_offsets,__transaction_state in a Kafka Streams"
            " topology is prohibited.",
        ),
        (
            of(part("0", "in", "a b", logs=("..",))),
            "Topic names a b,.. are not valid topic names.",
        ),
        (of(part("0", "in"), part("0", "in")), "The topology has subtopology 0 twice."),
        (
            of(part("0", "in", logs=("log", "log"))),
            "Subtopology 0 has the internal topic log twice.",
        ),
        (
            of(part("0", "in", reads=(InternalTopic("r", -1),))),
            "Subtopology 0 has a negative partition count for topic r.",
        ),
        (
            of(part("0", "in", logs=(InternalTopic("log", 0, 0, (("a", "1"), ("a", "2"))),))),
            "Subtopology 0 has the config a of topic log twice.",
        ),
        (
            of(part("0", "in", together=[CopartitionGroup((0,), (), (0,))])),
            "Subtopology 0 has a copartition group with a topic that does not exist.",
        ),
        (
            of(part("0", "in", together=[CopartitionGroup((-1,))])),
            "Subtopology 0 has a copartition group with a topic that does not exist.",
        ),
    ],
)
def test_invalid_topology_has_an_error_message(given: Topology, message: str | None) -> None:
    assert invalid(given) == message


def test_loaded_topology_with_inconsistent_fields_is_invalid() -> None:
    given = of(part("0", "in", together=[CopartitionGroup((7,))]))
    assert configure(given, image({"in": 1})).invalid == invalid(given)


def test_partitions_of_a_streams_endpoint_include_repartition_source_topics() -> None:
    joining = of(part("0", "in", writes=["r"]), part("1", "b", "a", reads=("r",)))
    topics = image({"in": 4, "a": 4, "b": 2, "r": 4})
    configured = configure(joining, topics)
    tasks = {"1": (0, 2, 3), "gone": (1,)}
    assert topic_partitions(tasks, configured, topics) == [
        ("a", (0, 2, 3)),
        ("b", (0,)),
        ("r", (0, 2, 3)),
    ]
    assert topic_partitions({"0": (1,)}, configured, topics) == [("in", (1,))]
    assert [name for name, _ in topic_partitions({"1": (3,)}, configured, topics)] == ["a", "r"]


def test_partitions_of_a_streams_member_endpoint_omit_a_deleted_topic() -> None:
    topics = image({"in": 4, "a": 4})
    configured = configure(of(part("0", "in", "a")), topics)
    topics.remove("a")
    assert topic_partitions({"0": (1,)}, configured, topics) == [("in", (1,))]


def chain_of(length: int) -> Topology:
    """Returns a topology in which each subtopology reads a repartition topic of the previous
    subtopology. The topology lists its subtopologies in reverse order."""
    links = [part("0", "in", writes=["r-0"])] + [
        part(str(each), reads=(f"r-{each - 1}",), writes=[f"r-{each}"], logs=(f"log-{each}",))
        for each in range(1, length)
    ]
    return of(*reversed(links))


def test_number_of_instructions_to_configure_a_topology_is_linear_in_its_size() -> None:
    topics = image({"in": 3})
    small, big = chain_of(50), chain_of(200)
    few = instructions(lambda: configure(small, topics))
    assert instructions(lambda: configure(big, topics)) < 4.6 * few


def check_stored_results() -> None:
    """Compares Muster's topologies with the stored results of Kafka's classes."""
    results = kafka_results.stored()
    for seed in kafka_results.TOPOLOGIES:
        assert difference(random_case(seed), next(results)) is None, seed


def test_configured_topologies_equal_the_stored_results_of_kafka() -> None:
    check_stored_results()


def test_reference_model_of_task_assignment_returns_the_targets_recorded_from_kafka() -> None:
    results = list(kafka_results.stored())[len(kafka_results.TOPOLOGIES) :]
    groups = [group for seed in kafka_results.LIVES for group in random_lives(seed)]
    for group, kafka in zip(groups, results, strict=True):
        assert kafka_results.targets_of(kafka) == kafka_sticky.assign(*group, JAVA)


Plant = Callable[[pytest.MonkeyPatch], None]


def subtopologies_have_the_order_of_the_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_counts, "in_hash_order", list)


def own_counts_outside_a_copartition_group_are_ignored(patch: pytest.MonkeyPatch) -> None:
    real = partition_counts._common

    def common(values: Any, shown: dict[str, int]) -> int:
        return max(shown.values()) if isinstance(values, set) else real(values, shown)

    patch.setattr(partition_counts, "_common", common)


def copartition_groups_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCounts, "_equalize", lambda _self, _subtopologies: None)


def first_input_decides(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_counts, "max", lambda counts: next(iter(counts)), raising=False)


def wrong_counts_of_existing_topics_are_accepted(patch: pytest.MonkeyPatch) -> None:
    real = topology._missing

    def missing(subtopologies: Any, topics: Any) -> Any:
        try:
            return real(subtopologies, topics)
        except partition_counts.IncorrectlyPartitioned:
            return ()

    patch.setattr(topology, "_missing", missing)


def loops_are_not_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCounts, "_check_repartition_topics", lambda _self, _subtopologies: None)


@pytest.mark.planted("topologies of streams groups")
@pytest.mark.parametrize(
    "plant",
    [
        subtopologies_have_the_order_of_the_request,
        own_counts_outside_a_copartition_group_are_ignored,
        copartition_groups_are_ignored,
        first_input_decides,
        wrong_counts_of_existing_topics_are_accepted,
        loops_are_not_found,
    ],
    ids=lambda plant: plant.__name__,
)
def test_stored_results_of_kafka_detect_each_planted_fault(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        check_stored_results()
