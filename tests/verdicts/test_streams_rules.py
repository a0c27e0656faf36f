"""The verdict of streams groups whose topics are missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdicts.groups import NOW_MS, ago, member
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
def test_group_without_tasks_is_not_ready_after_the_threshold(
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
def test_group_stays_not_ready_after_its_last_instance_has_ended(
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
            " counts-store-changelog is missing, which the broker creates at a heartbeat, although"
            " the group has 2 members",
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
def test_finding_names_the_missing_topics(
    streams: StreamsFacts | None, sentence: str, command: str
) -> None:
    worst = judged(streams, state_since_ms=ago(40)).worst
    assert (worst.sentence, worst.command) == (sentence, command)
    assert worst.advice
