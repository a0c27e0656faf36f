"""Tests the versions of requests to other brokers for each inter.broker.protocol.version."""

from __future__ import annotations

import pytest

from broker.cluster.peers.inter_broker import BadVersionText, parse

VERSIONS = """
         LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown Fetch ListOffsets
0.10.2   0            0           3              1                  3     1
0.10.2.2 0            0           3              1                  3     1
0.11     0            0           3              1                  5     2
1.0      1            0           4              1                  5     2
1.1-IV0  1            0           4              1                  7     2
2.2      2            1           5              2                  10    5
2.4-IV0  3            1           5              2                  11    5
2.4      4            2           6              3                  11    5
2.7-IV2  4            3           6              3                  12    5
2.8      5            3           7              3                  12    6
3.9-IV0  7            4           8              3                  17    9
3.9      7            4           8              3                  17    9
"""
"""The versions of each API that brokers send to each other, by inter.broker.protocol.version. They
were observed in requests of Kafka 0.10.2, 1.0, 2.8 and 3.9."""


def _rows() -> list[tuple[str, dict[str, int]]]:
    head, *lines = VERSIONS.strip("\n").splitlines()
    names = head.split()
    return [
        (words[0], dict(zip(names, map(int, words[1:]), strict=True)))
        for words in map(str.split, lines)
    ]


@pytest.mark.proves("clusters 11")
@pytest.mark.parametrize(("text", "versions"), _rows(), ids=lambda each: str(each)[:8])
def test_inter_broker_requests_have_the_version_of_the_configured_release(
    text: str, versions: dict[str, int]
) -> None:
    spoken = parse(text)
    assert {name: spoken.version_of(name) for name in versions} == versions


@pytest.mark.proves("clusters 11")
def test_version_of_an_api_is_none_for_a_kafka_release_without_the_api() -> None:
    assert parse("0.10.2").version_of("OffsetForLeaderEpoch") is None
    assert parse("0.10.2").version_of("WriteTxnMarkers") is None
    assert parse("3.9").version_of("OffsetForLeaderEpoch") == 4


def test_inter_broker_features_of_release_3_9_are_disabled_for_release_0_10_2() -> None:
    old, new = parse("0.10.2"), parse("3.9-IV0")
    for name in (
        "has_leader_epochs",
        "truncates_on_fetch",
        "has_alter_partition",
        "has_topic_ids",
        "has_features",
        "controller_gives_producer_ids",
        "has_magic_2",
    ):
        assert (getattr(old, name), getattr(new, name)) == (False, True), name


@pytest.mark.parametrize("text", ["", "four", "0.9.0", "0.10.1", "4.0", "3.9-IVx"])
def test_unsupported_release_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(BadVersionText, match=r"Kafka version|supported"):
        parse(text)
