"""Tests that the generated codecs have the same results as the reference codec, for valid and
invalid bytes."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.generated import (
    consumer_group_heartbeat,
    end_txn,
    fetch,
    heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
    produce,
    share_fetch,
    sync_group,
    txn_offset_commit,
)
from protocol.headers import decode_response_header
from protocol.schema import Api, Array, Struct
from tests.protocol.claims import array_paths, claimed
from tests.protocol.codecs_both_ways import both
from tests.protocol.message_values import mutations, struct_value

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "api.jsonl"
MODULES: dict[str, ModuleType] = {
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "EndTxn": end_txn,
    "Heartbeat": heartbeat,
    "OffsetCommit": offset_commit,
    "OffsetFetch": offset_fetch,
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "TxnOffsetCommit": txn_offset_commit,
    "Produce": produce,
    "Fetch": fetch,
    "ShareFetch": share_fetch,
}
DECODED = [(module, version) for module in MODULES.values() for version in module.API.versions]
IN_CHUNKS = (fetch, share_fetch)
ENCODED = [(module, version) for module, version in DECODED if module not in IN_CHUNKS]


def name_case(case: object) -> str:
    return case.API.name if isinstance(case, ModuleType) else f"v{case}"


def golden(name: str, kind: str, version: int) -> list[bytes]:
    found = []
    for line in GOLDEN.read_text().splitlines():
        vector = json.loads(line)
        if (vector["api"], vector["type"], vector["version"]) == (name, kind, version):
            found.append(bytes.fromhex(vector["hex"]))
    assert found
    return found


def reference(module: ModuleType, version: int, data: bytes) -> Any:
    """Decodes a request with the reference codec, and returns it in the form of the generated
    codec."""
    try:
        return module._shape(version, module.API.decode_request(version, data))
    except ProtocolError:
        return "refused"


def straight(module: ModuleType, version: int, data: bytes) -> Any:
    """Decodes a request with the generated codec, in Python and compiled, and asserts that both
    results are equal. Returns "refused" for invalid data."""
    results = []
    for decode in both("decode", module, version):
        try:
            # The decoder must work from any position: a body is never at the start of its buffer.
            results.append(decode(b"header" + data, 6))
        except ProtocolError:
            results.append("refused")
    assert results[0] == results[-1]
    return results[0]


def encoded(module: ModuleType, version: int, arguments: list[Any]) -> bytes:
    """Encodes a response with the generated codec, in Python and compiled, and asserts that both
    frames are equal."""
    frames: list[bytes] = [encode(77, *arguments) for encode in both("encode", module, version)]
    assert frames[0] == frames[-1]
    return frames[0]


@pytest.mark.parametrize(("module", "version"), DECODED, ids=name_case)
def test_golden_requests_are_decoded_as_by_the_reference(module: ModuleType, version: int) -> None:
    for data in golden(module.API.name, "request", version):
        expected = reference(module, version, data)
        assert expected != "refused"
        assert straight(module, version, data) == expected


@pytest.mark.campaign
@pytest.mark.parametrize(("module", "version"), DECODED, ids=name_case)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_random_request_is_decoded_as_by_the_reference(
    module: ModuleType, version: int, seed: int
) -> None:
    chance = random.Random(seed)
    value = struct_value(module.API.request, version, chance)
    data = module.API.encode_request(version, value)
    assert straight(module, version, data) == module._shape(version, value)
    for wrong in mutations(data, chance, 10):
        assert straight(module, version, wrong) == reference(module, version, wrong)


@pytest.mark.parametrize(("module", "version"), DECODED, ids=name_case)
def test_truncated_golden_request_is_decoded_as_by_the_reference_codec(
    module: ModuleType, version: int
) -> None:
    data = golden(module.API.name, "request", version)[0]
    for length in range(min(len(data), 1000)):
        expected = reference(module, version, data[:length])
        assert straight(module, version, data[:length]) == expected


@pytest.mark.parametrize(("module", "version"), DECODED, ids=name_case)
def test_wrong_element_count_is_refused_before_an_object_is_created(
    module: ModuleType, version: int
) -> None:
    codec = module.API.message(version, is_request=True)
    for path in array_paths(tuple(module.API.request), version):
        flexible = module.API.is_flexible(version)
        data = claimed(codec, module.API.request, version, path, flexible)
        for decode in both("decode", module, version):
            tracemalloc.start()
            with pytest.raises(ProtocolError, match="array has 2147483647 elements"):
                decode(data, 0)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 20_000, path


def commit(metadata: list[str | None]) -> dict[str, Any]:
    """Returns an OffsetCommit request with one partition for each element of ``metadata``."""
    partitions = [
        {
            "partition_index": index,
            "committed_offset": index * 10**10,
            "committed_leader_epoch": index % 3 - 1,
            "commit_timestamp": 1_700_000_000_000 + index,
            "committed_metadata": text,
        }
        for index, text in enumerate(metadata)
    ]
    topic = {"name": "orders", "topic_id": bytes(range(16)), "partitions": partitions}
    return {"group_id": "g", "topics": [topic]}


@pytest.mark.parametrize("version", offset_commit.API.versions)
@pytest.mark.parametrize(
    "metadata",
    [
        [None] * 100,
        [""] * 100,
        ["", None] * 50,
        [None] * 99 + ["note"],
        ["note"] + [""] * 200,
        [],
        [""] * 5000,
    ],
    ids=["null", "empty", "mixed", "last", "first", "none", "many"],
)
def test_commit_is_decoded_into_columns_with_or_without_metadata(
    version: int, metadata: list[str | None]
) -> None:
    data = offset_commit.API.encode_request(version, commit(metadata))
    decoded = straight(offset_commit, version, data)
    assert decoded == reference(offset_commit, version, data)
    ((topic, partitions, offsets, epochs, notes, timestamps),) = decoded[5]
    assert topic == (bytes(range(16)) if version >= 10 else "orders")
    assert partitions == tuple(range(len(metadata)))
    assert offsets == tuple(index * 10**10 for index in partitions)
    if version < 6:
        assert epochs == (-1,) * len(metadata)
    assert notes == (tuple(metadata) if any(metadata) else None)
    assert (timestamps is not None) == (version == 1)


def body_of(api: Api, version: int, frame: bytes) -> dict[str, Any]:
    """Decodes the body of an encoded response frame with the reference codec."""
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    correlation_id, position = decode_response_header(api.key, version, frame[4:])
    assert correlation_id == 77
    return api.decode_response(version, frame[4:], position)


def commit_arguments(key: str, value: dict[str, Any]) -> list[Any]:
    topics = [
        (
            topic[key],
            [part["partition_index"] for part in topic["partitions"]],
            [part["error_code"] for part in topic["partitions"]],
        )
        for topic in value["topics"]
    ]
    return [value["throttle_time_ms"], topics]


def fetch_arguments(version: int, value: dict[str, Any]) -> list[Any]:
    def columns(topic: dict[str, Any]) -> tuple[Any, ...]:
        parts = topic["partitions"]
        names = ("partition_index", "committed_offset", "committed_leader_epoch")
        metadata = [part["metadata"] for part in parts]
        return (
            topic["topic_id"] if version >= 10 else topic["name"],
            *(tuple(part[name] for part in parts) for name in names),
            metadata if any(text != "" for text in metadata) else None,
            [part["error_code"] for part in parts],
        )

    groups = value["groups"] if version >= 8 else [{**value, "group_id": "not sent"}]
    said = [
        (group["group_id"], group["error_code"], [columns(topic) for topic in group["topics"]])
        for group in groups
    ]
    return [value["throttle_time_ms"], said]


def produce_arguments(version: int, value: dict[str, Any]) -> list[Any]:
    names = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset")

    def answer(part: dict[str, Any]) -> tuple[Any, ...]:
        errors = [tuple(error.values()) for error in part["record_errors"]]
        return (*(part[name] for name in names), errors, part["error_message"])

    key = "topic_id" if version >= 13 else "name"
    topics = [
        (topic[key], [answer(part) for part in topic["partition_responses"]])
        for topic in value["responses"]
    ]
    return [topics, value["throttle_time_ms"]]


def untagged(fields: Any, value: dict[str, Any]) -> dict[str, Any]:
    """Returns a response value without tagged fields. The broker never sends tagged fields in these
    APIs."""
    plain: dict[str, Any] = {}
    for field in fields:
        if field.tag is not None:
            continue
        plain[field.name] = value[field.name]
        if isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            inner = field.type.element.fields
            plain[field.name] = [untagged(inner, each) for each in value[field.name]]
    return plain


def response_arguments(api: Api, version: int, value: dict[str, Any]) -> list[Any]:
    """Returns the arguments with which the generated encoder encodes the response ``value``."""
    if api.name in ("OffsetCommit", "TxnOffsetCommit"):
        first_with_ids = 10 if api.name == "OffsetCommit" else 6
        return commit_arguments("topic_id" if version >= first_with_ids else "name", value)
    if api.name == "OffsetFetch":
        return fetch_arguments(version, value)
    if api.name == "Produce":
        return produce_arguments(version, value)
    if api.name == "ConsumerGroupHeartbeat" and value["assignment"] is not None:
        topics = value["assignment"]["topic_partitions"]
        assigned = [(topic["topic_id"], topic["partitions"]) for topic in topics]
        value = {**value, "assignment": assigned}
    if api.name == "JoinGroup":
        names = ("member_id", "group_instance_id", "metadata")
        members = [tuple(member[name] for name in names) for member in value["members"]]
        value = {**value, "members": members}
    return [value[field.name] for field in api.response]


@pytest.mark.parametrize(("module", "version"), ENCODED, ids=name_case)
def test_golden_responses_are_encoded_byte_for_byte(module: ModuleType, version: int) -> None:
    for data in golden(module.API.name, "response", version):
        value = module.API.decode_response(version, data)
        if module is produce:
            value = untagged(module.API.response, value)
            data = module.API.encode_response(version, value)  # noqa: PLW2901
            value = module.API.decode_response(version, data)
        arguments = response_arguments(module.API, version, value)
        frame = encoded(module, version, arguments)
        assert frame.endswith(data)
        assert body_of(module.API, version, frame) == value


@pytest.mark.parametrize(("module", "version"), ENCODED, ids=name_case)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_random_response_is_encoded_as_by_the_reference(
    module: ModuleType, version: int, seed: int
) -> None:
    value = struct_value(module.API.response, version, random.Random(seed))
    if module is produce:
        plain = module.API.encode_response(version, untagged(module.API.response, value))
        value = module.API.decode_response(version, plain)
    arguments = response_arguments(module.API, version, value)
    frame = encoded(module, version, arguments)
    assert frame.endswith(module.API.encode_response(version, value))
    assert body_of(module.API, version, frame) == value


@pytest.mark.parametrize("version", offset_commit.API.versions)
@pytest.mark.parametrize("code", [0, 25, -1])
def test_one_error_code_of_a_topic_is_encoded_for_each_of_its_partitions(
    version: int, code: int
) -> None:
    topic: Any = bytes(16) if version >= 10 else "orders"
    partitions = (5, 1, 2**31 - 1)
    commit_reply = offset_commit.ENCODE_RESPONSE[version]
    assert commit_reply(7, 9, [(topic, partitions, code)]) == commit_reply(
        7, 9, [(topic, partitions, [code] * 3)]
    )
    columns = (topic, partitions, (7, 8, 9), (-1, 0, 4))
    fetch_reply = offset_fetch.ENCODE_RESPONSE[version]
    assert fetch_reply(7, 9, [("g", 0, [(*columns, None, code)])]) == fetch_reply(
        7, 9, [("g", 0, [(*columns, ["", "", ""], [code] * 3)])]
    )


@pytest.mark.parametrize(
    ("module", "version", "arguments"),
    [
        (heartbeat, 4, (1, 2**31, 0)),
        (heartbeat, 0, (1, 0, 2**15)),
        (sync_group, 5, (1, 0, 0, None, None, None)),
        (join_group, 6, (1, 0, 0, 1, None, None, "", False, "", [])),
        (offset_commit, 8, (1, 0, [("t", (1, 2), [0])])),
        (offset_commit, 8, (1, 0, [("x" * 40000, (1,), 0)])),
        (offset_commit, 3, (1, 0, [("x" * 40000, (1,), 0)])),
        (offset_commit, 8, (1, 0, [("t", ("1",), 0)])),
        (offset_commit, 10, (1, 0, [(b"short", (1,), 0)])),
        (offset_fetch, 8, (1, 0, [("g", 0, [("t", (1,), (), (1,), None, 0)])])),
        (offset_fetch, 8, (1, 0, [("g", 0, [("t", (1,), (2,), (3,), [], 0)])])),
        (offset_fetch, 7, (1, 0, [])),
    ],
)
def test_response_that_cannot_be_encoded_raises_protocol_error(
    module: ModuleType, version: int, arguments: Any
) -> None:
    for encode in both("encode", module, version):
        with pytest.raises(ProtocolError):
            encode(*arguments)


def test_number_of_cached_structs_is_bounded() -> None:
    unpackers = offset_commit._partitions_iqi
    for count in range(1, 600):
        assert len(unpackers[count](bytes(18 * count), 0)) == 3 * count
        assert sum(unpackers) <= 4096
    assert len(unpackers[3000](bytes(18 * 3000), 0)) == 9000
    assert 3000 not in unpackers
