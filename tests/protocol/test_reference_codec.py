"""Tests of the reference codec: encoding, decoding, exact errors and bounds. Each refusal is a
ProtocolError."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import log_records
from protocol.errors import ProtocolError
from protocol.messages import BY_KEY, BY_NAME
from tests.protocol.claims import array_paths, claimed
from tests.protocol.message_values import ALL, fields_of, mutations, struct_value

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "api.jsonl"
messages = st.sampled_from(ALL)


@given(message=messages, seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
def test_encoded_message_is_decoded_to_the_same_value(
    message: tuple[str, int, bool], seed: int
) -> None:
    name, version, is_request = message
    api = BY_NAME[name]
    codec = api.message(version, is_request=is_request)
    value = struct_value(fields_of(api, is_request), version, random.Random(seed))
    data = codec.encode(value)
    assert codec.decode(data) == value
    assert codec.decode(b"header" + data, 6) == value
    assert codec.decode(memoryview(data)) == value
    assert codec.encode(codec.decode(data)) == data


@given(message=messages, seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_mutated_message_is_decoded_or_raises_protocol_error(
    message: tuple[str, int, bool], seed: int
) -> None:
    name, version, is_request = message
    api = BY_NAME[name]
    codec = api.message(version, is_request=is_request)
    chance = random.Random(seed)
    data = codec.encode(struct_value(fields_of(api, is_request), version, chance))
    for wrong in mutations(data, chance, 20):
        try:
            value = codec.decode(wrong)
        except ProtocolError:
            continue
        # The encoder can encode every accepted value again to the same value, with tags in their
        # shortest form.
        again = codec.encode(value)
        assert codec.encode(codec.decode(again)) == again


def test_codec_refuses_every_prefix_of_a_golden_message() -> None:
    # The test reads every prefix of each fifth vector: an exact decoder needs all bytes.
    for line in GOLDEN.read_text().splitlines()[::5]:
        vector = json.loads(line)
        data = bytes.fromhex(vector["hex"])
        codec = BY_NAME[vector["api"]].message(
            vector["version"], is_request=vector["type"] == "request"
        )
        for length in range(min(len(data), 300)):
            with pytest.raises(ProtocolError):
                codec.decode(data[:length])


@given(junk=st.binary(max_size=200), message=messages)
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_decoded_or_raise_protocol_error(
    junk: bytes, message: tuple[str, int, bool]
) -> None:
    name, version, is_request = message
    try:
        value = BY_NAME[name].message(version, is_request=is_request).decode(junk)
    except ProtocolError:
        return
    assert isinstance(value, dict)


# -- claims -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [api.name for api in BY_KEY.values()])
def test_wrong_element_count_is_refused_before_an_object_is_created(name: str) -> None:
    api = BY_NAME[name]
    tried = 0
    for version in api.versions:
        codec = api.message(version, is_request=True)
        flexible = api.is_flexible(version)
        for path in array_paths(tuple(api.request), version):
            data = claimed(codec, api.request, version, path, flexible)
            tracemalloc.start()
            with pytest.raises(ProtocolError, match="array has 2147483647 elements"):
                codec.decode(data)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 20_000, path
            tried += 1
    assert tried == sum(len(array_paths(tuple(api.request), v)) for v in api.versions)


def test_element_count_is_refused_when_the_elements_cannot_fit_the_message() -> None:
    # Ten topics of OffsetCommit v2 take at least 6 bytes each; 30 bytes cannot hold them.
    data = b"\0\x01g" + b"\0\0\0\1" + b"\0\0" + bytes(8) + b"\0\0\0\x0a" + bytes(30)
    with pytest.raises(ProtocolError, match="an array has 10 elements, but 30 bytes are left"):
        BY_NAME["OffsetCommit"].decode_request(2, data)


# -- details of the encoding -----------------------------------------------------------------------


def heartbeat(version: int, data: bytes) -> dict[str, Any]:
    return BY_NAME["Heartbeat"].decode_request(version, data)


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (0, b"\0\1g\0\0\0\1\0\1", "a string has a length of 1 bytes, but 0 are left"),
        (0, b"\0\1g\0\0\0", "truncated"),
        (0, b"", "truncated"),
        (0, b"\xff\xffg\0\0\0\1\0\1m", "null, expected string"),
        (0, b"\x80\0g\0\0\0\1\0\1m", "string of -32768 bytes"),
        (0, b"\0\1\xff\0\0\0\1\0\1m", "a string is not UTF-8"),
        (0, b"\0\3\xed\xa0\x80\0\0\0\1\0\1m", "a string is not UTF-8"),
        (3, b"\0\1g\0\0\0\1\0\1m\xff\xfe", "string of -2 bytes"),
        (4, b"\0\0\0\0\1\2m\0\0", "null, expected string"),
        (4, b"\x82\x80\x02" + b"g" * 40000, "string of 32769 bytes"),
        (4, b"\xff\xff\xff\xff\xff\x01", "a varint has more than 5 bytes"),
        (4, b"\xff\xff\xff\xff\x1f", "a varint has more than 32 bits"),
        (4, b"\2g\0\0\0\1\2m\0\2\5\0\5\0", "tag 5 follows tag 5: tags must ascend"),
        (4, b"\2g\0\0\0\1\2m\0\2\5\0\4\0", "tag 4 follows tag 5: tags must ascend"),
        (4, b"\2g\0\0\0\1\2m\0\1\5\3ab", "tag 5 has 3 bytes, but fewer are left"),
        (4, b"\2g\0\0\0\1\2m\0\x7f\5\0", "127 tagged fields are stated, but only 2 bytes are left"),
    ],
)
def test_malformed_heartbeat_is_refused_with_the_reason(
    version: int, data: bytes, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=f"^Heartbeat request v{version}: {reason}"):
        heartbeat(version, data)


def test_bytes_after_a_request_are_ignored_and_bytes_after_a_response_are_refused() -> None:
    # librdkafka 2.16 requests all topics with trailing bytes: null, two flags, no tags, and three
    # more.
    asked = BY_NAME["Metadata"].decode_request(13, bytes(7))
    assert asked["topics"] is None
    assert asked == BY_NAME["Metadata"].decode_request(13, bytes(4))
    answer = BY_NAME["Heartbeat"].encode_response(0, {"error_code": 27})
    with pytest.raises(ProtocolError, match=r"^Heartbeat response v0: 1 excess bytes"):
        BY_NAME["Heartbeat"].decode_response(0, answer + b"\0")


def test_varint_may_be_longer_than_necessary_as_in_kafka() -> None:
    expected = heartbeat(4, b"\2g\0\0\0\1\2m\0\0")
    assert heartbeat(4, b"\x82\0g\0\0\0\1\x82\x80\x80\0m\x80\0\0") == expected


def test_negative_element_count_other_than_minus_1_is_refused() -> None:
    metadata = BY_NAME["Metadata"]
    assert metadata.decode_request(1, b"\xff\xff\xff\xff")["topics"] is None
    with pytest.raises(ProtocolError, match="array has -2 elements"):
        metadata.decode_request(1, b"\xff\xff\xff\xfe")
    with pytest.raises(ProtocolError, match="expected an array, not null"):
        metadata.decode_request(0, b"\xff\xff\xff\xff")


def test_unknown_tagged_fields_are_decoded_and_encoded_unchanged() -> None:
    data = b"\2g\0\0\0\1\2m\0\2\5\3abc\xe8\7\0"
    value = heartbeat(4, data)
    assert value["_tagged_fields"] == {5: b"abc", 1000: b""}
    assert BY_NAME["Heartbeat"].encode_request(4, value) == data
    with pytest.raises(ProtocolError, match="this version of the message can't have tagged fields"):
        BY_NAME["Heartbeat"].encode_request(3, value)


def test_known_tagged_field_is_encoded_only_when_its_value_is_not_the_default() -> None:
    versions = BY_NAME["ApiVersions"]
    plain = versions.encode_response(3, {"api_keys": []})
    assert plain == b"\0\0\1\0\0\0\0\0"
    assert versions.encode_response(3, {"api_keys": [], "finalized_features_epoch": -1}) == plain
    data = versions.encode_response(3, {"api_keys": [], "finalized_features_epoch": 7})
    assert data == plain[:-1] + b"\1\1\x08" + (7).to_bytes(8, "big")
    assert versions.decode_response(3, data)["finalized_features_epoch"] == 7
    with pytest.raises(ProtocolError, match="finalized_features_epoch: 1 excess bytes"):
        versions.decode_response(3, data.replace(b"\1\1\x08", b"\1\1\x09") + b"\0")
    with pytest.raises(ProtocolError, match="tag 1 is a known field"):
        versions.encode_response(3, {"api_keys": [], "_tagged_fields": {1: bytes(8)}})


def test_null_struct_in_a_tagged_field_is_encoded_as_0() -> None:
    """Kafka 4.3.1 wrote the tested metadata record of a KIP-848 member. Its field
    classic_member_metadata is null."""
    name = "ConsumerGroupMemberMetadataValue"
    modern = bytes.fromhex(
        "000004616461" "0b2f3132372e302e302e31" "02076f7264657273" "01" "000493e0" "00"
        "01000100"
    )  # fmt: skip
    value = log_records.decode(name, 0, modern)
    assert (value["client_id"], value["classic_member_metadata"]) == ("ada", None)
    assert log_records.encode(name, 0, value) == modern
    classic = value | {"classic_member_metadata": {"session_timeout_ms": 1,
                                                   "supported_protocols": []}}  # fmt: skip
    assert log_records.decode(name, 0, log_records.encode(name, 0, classic)) == classic


def test_null_struct_is_decoded_and_encoded() -> None:
    api = BY_NAME["DescribeTopicPartitions"]
    assert api.encode_request(0, {"topics": [], "cursor": None})[-2:] == b"\xff\0"
    cursor = {"topic_name": "t", "partition_index": 3}
    data = api.encode_request(0, {"topics": [], "cursor": cursor})
    assert api.decode_request(0, data)["cursor"] == cursor
    with pytest.raises(ProtocolError, match="expected 1 or -1 before a struct, not 2"):
        api.decode_request(0, data.replace(b"\1\2t", b"\2\2t"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"group_id": None}, "group_id: expected text, not None"),
        ({"group_id": b"g"}, "group_id: expected text, not b'g'"),
        ({"group_id": "x" * 32768}, "group_id: the string of 32768 bytes"),
        ({"group_id": "\ud800"}, "group_id: .*surrogates not allowed"),
        ({"generation_id_or_member_epoch": 2**31}, "generation_id_or_member_epoch: "),
        ({"generation_id_or_member_epoch": "1"}, "generation_id_or_member_epoch: "),
        ({"topics": None}, "topics: expected a list, not None"),
        ({"topics": {"name": "t"}}, "topics: expected a list"),
        ({"topics": ["t"]}, "topics: expected a dict, not 't'"),
        ({"topics": [{"topic_id": b"short"}]}, "topics: topic_id: expected a UUID of 16 bytes"),
        ({"topics": [{"partition": []}]}, "topics: unknown field: partition"),
        ({"group": "g"}, "unknown field: group"),
        ([], "expected a dict"),
    ],
)
def test_error_of_a_value_that_cannot_be_encoded_names_the_field(value: Any, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"^OffsetCommit request v10: {reason}"):
        BY_NAME["OffsetCommit"].encode_request(10, value)


def test_value_of_a_bytes_field_must_be_bytes() -> None:
    api = BY_NAME["SyncGroup"]
    for wrong in ("text", [1, 2], 5, None):
        with pytest.raises(ProtocolError, match="assignment: expected bytes"):
            api.encode_response(5, {"assignment": wrong})
    assert api.encode_response(0, {"assignment": memoryview(b"ab")}) == b"\0\0\0\0\0\2ab"


def test_decoding_of_a_produce_request_copies_the_records_at_most_once() -> None:
    api = BY_NAME["Produce"]
    records = random.Random(1).randbytes(100_000)
    part = {"index": 0, "records": records}
    data = api.encode_request(9, {"topic_data": [{"name": "t", "partition_data": [part]}]})
    tracemalloc.start()
    value = api.decode_request(9, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value["topic_data"][0]["partition_data"][0]["records"] == records
    assert peak < 150_000, "copied more than once"
