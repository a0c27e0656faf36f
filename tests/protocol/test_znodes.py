"""Tests of the data in ZooKeeper nodes. Muster decodes Kafka's nodes and writes nodes in the same
form, and an error names the malformed node."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.znodes.admin import decode_preferred, decode_reassignments, encode_reassignments
from protocol.znodes.brokers import (
    Endpoint,
    Registration,
    decode_registration,
    encode_registration,
)
from protocol.znodes.cluster import (
    ProducerIdBlock,
    decode_controller,
    decode_epoch,
    decode_feature,
    decode_producer_ids,
    encode_controller,
    encode_feature,
    encode_producer_ids,
)
from protocol.znodes.configs import decode_config, encode_config, entity, name_of, path
from protocol.znodes.consumers import decode_member, decode_offset
from protocol.znodes.fields import BadNode
from protocol.znodes.notices import decode_config_change, decode_isr_change, number_of
from protocol.znodes.topics import (
    StateNode,
    TopicNode,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)

INT32_MAX = 2**31 - 1

BROKER = Registration(
    1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),), "r1", timestamp_ms=1_700_000_000_000
)


def test_broker_registration_has_the_format_of_kafka() -> None:
    data = encode_registration(BROKER)
    assert data == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,"port":9092,'
        b'"host":"127.0.0.1","version":5,"timestamp":"1700000000000","rack":"r1"}'
    )
    assert decode_registration(1, data) == BROKER


def test_broker_registration_of_version_4_has_no_features() -> None:
    there = json.loads(encode_registration(BROKER, 4))
    assert there["version"] == 4
    assert "features" not in there


def test_broker_registration_of_version_1_has_a_host_and_a_port() -> None:
    data = b'{"jmx_port":-1,"timestamp":"17","host":"h","version":1,"port":9093}'
    assert decode_registration(2, data).endpoints == (Endpoint("PLAINTEXT", "h", 9093),)


def test_registered_listener_gets_its_security_protocol_from_the_protocol_map() -> None:
    found = decode_registration(
        3,
        b'{"listener_security_protocol_map":{"IN":"SSL"},"endpoints":["IN://[::1]:1"],'
        b'"jmx_port":-1,"port":-1,"host":null,"version":4,"timestamp":"1"}',
    )
    assert found.endpoints == (Endpoint("IN", "::1", 1, "SSL"),)
    assert found.endpoints[0].text == "IN://[::1]:1"
    assert found.endpoint("IN") == found.endpoints[0]
    assert found.endpoint("OUT") is None


def test_broker_registration_without_plaintext_listener_has_null_host_and_port_minus_1() -> None:
    broker = Registration(1, (Endpoint("SSL", "h", 1, "SSL"),))
    there = json.loads(encode_registration(broker))
    assert (there["host"], there["port"]) == (None, -1)


@pytest.mark.proves("clusters 17")
def test_rewritten_topic_keeps_id_reassignments_and_unknown_fields() -> None:
    """If a broker dropped the topic id when it rewrote the node, the controller would assign a new
    topic id, which every replica would refuse."""
    data = (
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":{"1":[2],"0":[1,2,3]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"later":7}'
    )
    topic = decode_topic("orders", data)
    assert topic.partitions == {0: (1, 2, 3), 1: (2,)}
    assert decode_topic("orders", encode_topic(topic)) == topic
    assert topic.unknown == {"later": 7}


def test_topic_of_an_old_kafka_has_no_id() -> None:
    topic = decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert topic == TopicNode({0: (1,)})
    assert b"topic_id" not in encode_topic(TopicNode({0: (1,)}, "x" * 22), version=2)


def test_partition_state_node_has_the_format_of_kafka() -> None:
    state = StateNode(1, 0, (1, 2, 3), 1)
    data = encode_state(state)
    assert data == (b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}')
    assert decode_state("t", 0, data) == state
    recovering = StateNode(2, 5, (2,), 1, recovering=True)
    assert decode_state("t", 0, encode_state(recovering)) == recovering


def test_partition_state_with_an_empty_isr_and_no_leader_is_decoded() -> None:
    """Kafka never writes an empty ISR in normal operation, but a node can contain it."""
    data = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":3,"isr":[]}'
    assert decode_state("t", 0, data) == StateNode(-1, 3, (), 1)


def test_controller_epoch_and_producer_id_nodes_have_the_form_of_kafka() -> None:
    assert decode_controller(encode_controller(7, 1_700_000_000_000)) == 7
    assert decode_controller(b'{"version":1,"brokerid":3,"timestamp":"1"}') == 3
    assert decode_epoch(b"12") == 12
    block = ProducerIdBlock(1, 0, 999)
    assert encode_producer_ids(block) == (
        b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    )
    assert decode_producer_ids(encode_producer_ids(block)) == block
    assert decode_producer_ids(b"") is None


@pytest.mark.parametrize(
    ("version", "level"),
    [
        (1, b'{"min_version_level":1,"max_version_level":1}'),  # Kafka 2.7 to 3.2
        (2, b'{"max_version_level":1}'),
    ],
)
def test_feature_levels_have_kafkas_form(version: int, level: bytes) -> None:
    data = encode_feature(version, True, {"group.version": 1})
    assert data == b'{"version":%d,"status":1,"features":{"group.version":%b}}' % (version, level)
    assert decode_feature(data) == {"group.version": 1}


@pytest.mark.proves("clusters 18")
@given(
    st.integers(0, INT32_MAX),
    st.integers(0, 2**62),
    st.lists(st.integers(0, INT32_MAX), max_size=4),
)
def test_nodes_contain_only_numbers_of_at_most_32_bits(
    number: int, large: int, ids: list[int]
) -> None:
    """Kafka 0.10.2 cannot read a node with a larger number."""
    nodes = [
        encode_registration(Registration(number, (), timestamp_ms=large)),
        encode_controller(number, large),
        encode_producer_ids(ProducerIdBlock(number, large, large + 999)),
        encode_state(StateNode(number, number, tuple(ids), number)),
    ]
    for node in nodes:
        _assert_small(json.loads(node))


def _assert_small(value: object) -> None:
    if isinstance(value, dict):
        for each in value.values():
            _assert_small(each)
    elif isinstance(value, list):
        for each in value:
            _assert_small(each)
    else:
        assert not isinstance(value, float)
        assert not isinstance(value, int) or -1 <= value <= INT32_MAX


def test_nodes_of_settings_and_change_notifications_have_kafkas_form() -> None:
    assert encode_config({"retention.ms": "1000"}) == (
        b'{"version":1,"config":{"retention.ms":"1000"}}'
    )
    assert decode_config("/config/topics/t", b"") == {}
    assert path("users", "a b/ü*~") == "/config/users/a%20b%2F%C3%BC%2A%7E"
    assert name_of("users", "a%20b%2F%C3%BC") == "a b/ü"
    assert entity("brokers", "<default>") == "brokers/<default>"
    assert decode_config_change("/x", b'{"version":2,"entity_path":"topics/t"}') == "topics/t"
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert decode_config_change("/x", old) == "topics/t"
    assert number_of("config_change_0000000017") == 17
    assert number_of("something") == -1


def test_zookeeper_nodes_in_which_old_tools_store_requests_are_decoded() -> None:
    targets = {("t", 0): (2, 3)}
    assert decode_reassignments(encode_reassignments(targets)) == targets
    preferred = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert decode_preferred(preferred) == decode_isr_change("/x", preferred) == [("t", 0)]


def test_nodes_of_the_old_zookeeper_consumer_are_decoded() -> None:
    data = b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1"}'
    assert decode_member("g", "g_h-1", data).subscription == {"t": 2}
    assert decode_offset("/consumers/g/offsets/t/0", b"42") == 42


@pytest.mark.parametrize(
    ("decode", "says"),
    [
        (lambda: decode_registration(1, b"{"), "/brokers/ids/1 is not JSON"),
        (lambda: decode_registration(1, b'{"version":0}'), "version='0', not 1 or more"),
        (
            lambda: decode_registration(1, b'{"version":5,"endpoints":["x"]}'),
            "'x', which is not an endpoint",
        ),
        (lambda: decode_topic("t", b"[]"), "/brokers/topics/t is not a JSON object"),
        (lambda: decode_topic("t", b'{"partitions":{"x":[1]}}'), "not an object with the replicas"),
        (lambda: decode_topic("t", b'{"partitions":{"0":[1.5]}}'), "not a list of numbers"),
        (
            lambda: decode_topic("t", b'{"partitions":{"2000000000":[1]}}'),
            "not an object with the replicas",
        ),
        (lambda: decode_topic("t", b'{"partitions":{"0":[2147483648]}}'), "not a list of numbers"),
        (
            lambda: decode_state("t", 0, b'{"leader":2147483648}'),
            "has leader='2147483648', not a number",
        ),
        (lambda: decode_state("t", 0, b"{}"), "/brokers/topics/t/partitions/0/state has leader"),
        (
            lambda: decode_feature(b'{"features":{"group.version":1}}'),
            "not an object with max_version_level for each feature",
        ),
        (lambda: decode_epoch(b"x"), "/controller_epoch has b'x', which is not a number"),
        (lambda: decode_config_change("/c", b'{"version":3}'), "version='3', not 1 or 2"),
        (lambda: decode_offset("/o", b""), "which is not an offset"),
    ],
)
def test_error_names_the_path_of_a_malformed_node(decode: object, says: str) -> None:
    with pytest.raises(BadNode) as caught:
        decode()  # type: ignore[operator]
    assert says in str(caught.value)


@given(st.binary(max_size=200))
def test_random_topic_node_is_decoded_or_its_path_is_in_the_error(data: bytes) -> None:
    with suppress(BadNode):
        assert decode_topic("t", data).partitions is not None
