"""Tests of the verdict NOT_READY of streams groups whose topics are missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdicts.groups import NOW_MS, ago, at, every_ten_seconds, member, returns
from verdicts.facts import GroupFacts
from verdicts.judge import judge
from verdicts.names import Verdict
from verdicts.streams_rules import (
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    StreamsFacts,
)
from verdicts.thresholds import Thresholds

MISSING = StreamsFacts(MISSING_SOURCE_TOPICS, "Source topics lines are missing.", ("lines",))


def judged(streams: StreamsFacts | None, state: str = "NotReady", **fields: Any) -> Any:
    facts = GroupFacts(
        "counts",
        state,
        protocol_type="streams",
        members=[member("m1"), member("m2")],
        streams=streams,
        **fields,
    )
    return judge(facts, Thresholds(), NOW_MS)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state_since_ms": ago(9)}, Verdict.OK),
        ({"state_since_ms": ago(10)}, Verdict.NOT_READY),
        ({"state_since_ms": ago(90), "state_counts_from_ms": ago(5)}, Verdict.OK),
        ({"state_since_ms": None}, Verdict.NOT_READY),
        ({"state_since_ms": ago(90), "state": "Stable"}, Verdict.OK),
    ],
)
def test_streams_group_without_tasks_is_not_ready_after_the_threshold(
    fields: dict[str, Any], expected: Verdict
) -> None:
    assert judged(MISSING, **fields).verdict is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state_since_ms": ago(2)}, Verdict.NOT_READY),
        ({"state_since_ms": ago(299)}, Verdict.NOT_READY),
        ({"state_since_ms": ago(300)}, Verdict.OK),
        ({"state_since_ms": ago(2), "streams": MISSING._replace(since_ms=ago(9))}, Verdict.OK),
        ({"state_since_ms": ago(2), "streams": None}, Verdict.OK),
    ],
)
def test_verdict_of_a_streams_group_stays_not_ready_after_its_last_instance_has_ended(
    fields: dict[str, Any], expected: Verdict
) -> None:
    fields = {"streams": MISSING._replace(since_ms=ago(400)), **fields}

    assert judged(state="Empty", **fields).verdict is expected


def test_finding_of_an_ended_application_says_that_it_must_be_started_again() -> None:
    problem = MISSING._replace(since_ms=ago(40))

    worst = judged(problem, "Empty", state_since_ms=ago(2)).worst

    assert worst.sentence == (
        "no instance has had a task since 2026-11-22T12:04:51Z: the source topic lines does not"
        " exist; the group has no members"
    )
    assert worst.advice == (
        "create the topic, or correct its name in the application; then start the application again"
    )
    assert worst.command == "muster topics create lines"


@pytest.mark.parametrize(
    ("streams", "sentence", "command"),
    [
        (
            MISSING,
            "no instance has had a task since 2026-11-22T12:04:51Z: the source topic lines does"
            " not exist, although the group has 2 members",
            "muster topics create lines",
        ),
        (
            StreamsFacts(MISSING_SOURCE_TOPICS, "", ("lines", "pages")),
            "no instance has had a task since 2026-11-22T12:04:51Z: the source topics lines, pages"
            " do not exist, although the group has 2 members",
            "muster topics create lines",
        ),
        (
            StreamsFacts(MISSING_INTERNAL_TOPICS, "", ("counts-store-changelog",)),
            "no instance has had a task since 2026-11-22T12:04:51Z: the internal topic"
            " counts-store-changelog is missing (the broker creates it at a member's heartbeat),"
            " although the group has 2 members",
            "muster groups why counts",
        ),
        (
            StreamsFacts(INCORRECTLY_PARTITIONED_TOPICS, "Topics differ: [{a=4, b=3}]"),
            "no instance has had a task since 2026-11-22T12:04:51Z: Topics differ: [{a=4, b=3}],"
            " although the group has 2 members",
            "muster groups describe counts",
        ),
        (
            None,
            "no instance has had a task since 2026-11-22T12:04:51Z: a topic of the application is"
            " missing, although the group has 2 members",
            "muster groups describe counts",
        ),
    ],
)
def test_finding_of_the_verdict_not_ready_names_the_missing_topics(
    streams: StreamsFacts | None, sentence: str, command: str
) -> None:
    worst = judged(streams, state_since_ms=ago(40)).worst
    assert (worst.sentence, worst.command) == (sentence, command)
    assert worst.advice


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"returns": [returns(3)]},
            "the client of m9 on 10.0.0.7 has restarted 3 times since 2026-11-22T12:05:01Z, each"
            " time with a new member id (2 members share client id 'app'); no instance had a task:"
            " the source topic lines does not exist",
        ),
        (
            {"rebalances_ms": every_ten_seconds(8), "last_why": "m1 left"},
            "the group has rebalanced 8 times since 2026-11-22T12:04:11Z; last cause: m1 left; no"
            " instance had a task: the source topic lines does not exist",
        ),
    ],
)
def test_finding_about_flapping_instances_names_their_missing_source_topic(
    fields: dict[str, Any], sentence: str
) -> None:
    [*_, flapping] = judged(MISSING, state_since_ms=ago(40), **fields).findings

    assert (flapping.verdict, flapping.sentence) == (Verdict.FLAPPING, sentence)
    assert flapping.advice == (
        "Kafka Streams shuts down an instance whose source topic is missing: create the topic, or"
        " correct its name in the application"
    )
    assert flapping.command == "muster topics create lines"


@pytest.mark.parametrize("protocol_type", ["streams", "share"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"returns": [returns(3)]},
            "check the client's log for the reason why its process exits",
        ),
        (
            {"rebalances_ms": every_ten_seconds(8)},
            "if the process is restarted, check the client's log for the reason why its process"
            " exits",
        ),
        (
            {"returns": [returns(3, ways=(("session_expired", 3),))]},
            "or raise {}.session.timeout.ms of the group above the length of the pauses",
        ),
    ],
)
def test_flapping_advice_for_streams_and_share_groups_omits_group_instance_id(
    protocol_type: str, fields: dict[str, Any], expected: str
) -> None:
    facts = GroupFacts("counts", "Stable", protocol_type=protocol_type, **fields)

    [flapping] = judge(facts, Thresholds(), NOW_MS).findings

    assert flapping.verdict is Verdict.FLAPPING
    assert flapping.advice.endswith(expected.format(protocol_type))
    assert "group.instance.id" not in flapping.advice


def test_advice_for_a_stalled_instance_that_restarts_is_specific_to_streams_groups() -> None:
    facts = GroupFacts(
        "counts",
        "Stable",
        protocol_type="streams",
        members=[member("m9")],
        partitions=[at(0, 1, 9, stands=60, oldest=60, owner="m9")],
        returns=[returns(3)],
    )

    stalled = judge(facts, Thresholds(), NOW_MS).worst

    assert stalled.verdict is Verdict.STALLED
    assert stalled.advice == "check the client's log for the reason why its process exits"
