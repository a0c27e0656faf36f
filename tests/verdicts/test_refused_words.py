"""Tests of the advice of verdict REFUSED, which depends on the type of the group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.verdicts.groups import NOW_MS, refused
from verdicts.facts import GroupFacts
from verdicts.judge import judge
from verdicts.names import Verdict
from verdicts.thresholds import Thresholds

OWN_ID = "give the client its own group.id: "
FULL = "stop members that are not needed, or raise "
RECORD = "raise max.message.bytes of __consumer_offsets, or reduce the group's members or topics"


def advice(protocol_type: str, **fields: Any) -> str:
    facts = GroupFacts("g", "Stable", protocol_type=protocol_type, refused=[refused(**fields)])
    [found] = judge(facts, Thresholds(), NOW_MS).findings
    assert found.verdict is Verdict.REFUSED
    return found.advice


@pytest.mark.parametrize(
    ("protocol_type", "expected"),
    [
        (
            "streams",
            f"{OWN_ID}the group is a streams group, which consumers can't join; if the client is an"
            " instance of the streams application, set group.protocol=streams in its properties",
        ),
        (
            "share",
            f"{OWN_ID}the group is a share group, which only share consumers (KafkaShareConsumer)"
            " can join",
        ),
    ],
)
def test_advice_for_a_consumer_in_a_group_of_another_type_does_not_mention_assignors(
    protocol_type: str, expected: str
) -> None:
    why = f"the group is a {protocol_type} group"

    assert advice(protocol_type, error="INCONSISTENT_GROUP_PROTOCOL", why=why) == expected


def test_consumer_refused_by_a_classic_group_gets_advice_about_assignors() -> None:
    found = advice("consumer", error="INCONSISTENT_GROUP_PROTOCOL", why="the client offers range")

    assert "partition.assignment.strategy" in found


@pytest.mark.parametrize(
    ("protocol_type", "setting"),
    [
        ("consumer", "group.max.size"),
        ("streams", "group.streams.max.size"),
        ("share", "group.share.max.size"),
    ],
)
def test_advice_for_a_full_group_names_the_size_limit_setting_of_its_type(
    protocol_type: str, setting: str
) -> None:
    why = "The group has reached its maximum capacity of 2 members."

    assert advice(protocol_type, error="GROUP_MAX_SIZE_REACHED", why=why) == FULL + setting


def test_advice_about_an_assignment_that_exceeds_a_batch_names_max_message_bytes() -> None:
    why = "The group's target assignment does not fit into a batch (max.message.bytes)."

    assert advice("streams", error="GROUP_MAX_SIZE_REACHED", why=why) == RECORD
