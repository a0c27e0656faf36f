"""Tests that the message tables have the same fields in every version as Apache Kafka's message
schemas."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from protocol import api_keys, errors, headers, log_records
from protocol.errors import ProtocolError
from protocol.messages import BY_KEY, BY_NAME
from protocol.schema import layout, version_range

TOP = Path(__file__).parent.parent.parent
SCHEMAS = TOP / "tests" / "data" / "schema"
APIS: dict[str, Any] = json.loads((SCHEMAS / "api.json").read_text())
RECORDS: dict[str, Any] = json.loads((SCHEMAS / "records.json").read_text())
ERRORS: list[dict[str, Any]] = json.loads((SCHEMAS / "errors.json").read_text())
DEFAULTS: dict[str, Any] = json.loads((SCHEMAS / "defaults.json").read_text())

# In these messages the reflected schemas omit that records can be null; golden vectors show it.
NULLABLE_RECORDS = {("Produce", "request"), ("Fetch", "response"), ("ShareFetch", "response")}


def with_nullable_records(type_: Any) -> Any:
    if isinstance(type_, list):
        return [with_nullable_records(part) for part in type_]
    if isinstance(type_, dict):
        return {key: with_nullable_records(part) for key, part in type_.items()}
    return {"RECORDS": "NULLABLE_RECORDS", "COMPACT_RECORDS": "COMPACT_NULLABLE_RECORDS"}.get(
        type_, type_
    )


@pytest.mark.parametrize("name", APIS)
def test_message_table_equals_kafkas_schema(name: str) -> None:
    api = BY_NAME[name]
    assert api.key == APIS[name]["key"]
    assert list(map(str, api.versions)) == list(APIS[name]["versions"])
    for text, schema in APIS[name]["versions"].items():
        version = int(text)
        for part, fields in (("request", api.request), ("response", api.response)):
            expected = schema[part]
            if (name, part) in NULLABLE_RECORDS:
                expected = with_nullable_records(expected)
            assert layout(fields, version, api.is_flexible(version)) == expected


@pytest.mark.parametrize("name", APIS)
def test_header_versions_are_those_of_kafka(name: str) -> None:
    for text, schema in APIS[name]["versions"].items():
        key, version = APIS[name]["key"], int(text)
        assert headers.request_header_version(key, version) == schema["request_header"]
        assert headers.response_header_version(key, version) == schema["response_header"]


@pytest.mark.parametrize("name", RECORDS)
def test_table_of_a_log_record_equals_kafkas_schema(name: str) -> None:
    record = log_records.BY_NAME[name]
    assert record.record_type == RECORDS[name]["apiKey"]
    assert list(map(str, record.versions)) == list(RECORDS[name]["versions"])
    for text, schema in RECORDS[name]["versions"].items():
        version = int(text)
        assert layout(record.fields, version, record.is_flexible(version)) == schema


def test_apis_are_found_by_key_and_by_name() -> None:
    assert list(BY_KEY) == sorted(BY_KEY) == list(range(95))
    assert set(BY_NAME) == set(APIS)
    assert all(api.key == key for key, api in BY_KEY.items())
    assert BY_KEY[74].name == "ListConfigResources"
    assert 95 not in BY_KEY
    with pytest.raises(KeyError):
        BY_KEY[95]


def test_each_api_key_has_a_name() -> None:
    assert api_keys.OFFSET_COMMIT == BY_NAME["OffsetCommit"].key == 8
    flexible = {
        k: api.first_flexible for k, api in BY_KEY.items() if api.first_flexible is not None
    }
    assert flexible == api_keys.FIRST_FLEXIBLE


def test_error_codes_names_and_retriable_flags_equal_those_of_kafka() -> None:
    assert {e["code"]: e["name"] for e in ERRORS} == errors.NAMES
    assert {e["code"] for e in ERRORS if e["retriable"]} == errors.RETRIABLE
    for code, name in errors.NAMES.items():
        assert getattr(errors, name) == code


@pytest.mark.parametrize(
    ("api", "version", "value", "expected"),
    [
        (
            "OffsetCommit",
            0,
            {"group_id": "g", "topics": []},
            {
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "group_instance_id": None,
                "retention_time_ms": -1,
            },
        ),
        ("JoinGroup", 0, {}, {"rebalance_timeout_ms": -1, "group_instance_id": None}),
        (
            "Fetch",
            0,
            {},
            {
                "max_bytes": 0x7FFFFFFF,
                "session_id": 0,
                "session_epoch": -1,
                "rack_id": "",
                "forgotten_topics_data": [],
                "cluster_id": None,
                "replica_state": {"replica_id": -1, "replica_epoch": -1},
            },
        ),
        ("Metadata", 3, {}, {"allow_auto_topic_creation": True}),
        ("FindCoordinator", 0, {}, {"key_type": 0, "coordinator_keys": []}),
        ("InitProducerId", 0, {}, {"producer_id": -1, "producer_epoch": -1}),
    ],
)
def test_field_absent_from_a_version_has_its_default(
    api: str, version: int, value: dict[str, Any], expected: dict[str, Any]
) -> None:
    decoded = BY_NAME[api].decode_request(version, BY_NAME[api].encode_request(version, value))
    assert expected.items() <= decoded.items()


def test_field_absent_from_a_struct_has_its_default() -> None:
    commit = BY_NAME["OffsetCommit"]
    part = {"partition_index": 1, "committed_offset": 2, "committed_metadata": None}
    value = {"topics": [{"name": "t", "partitions": [part]}]}
    (topic,) = commit.decode_request(5, commit.encode_request(5, value))["topics"]
    assert topic == {
        "name": "t",
        "topic_id": bytes(16),
        "partitions": [{**part, "committed_leader_epoch": -1, "commit_timestamp": -1}],
    }


def test_mutable_defaults_are_not_shared_between_decoded_values() -> None:
    fetch = BY_NAME["Fetch"]
    data = fetch.encode_request(0, {})
    first = fetch.decode_request(0, data)
    first["forgotten_topics_data"].append("mine")
    first["replica_state"]["replica_id"] = 7
    second = fetch.decode_request(0, data)
    assert second["forgotten_topics_data"] == []
    assert second["replica_state"]["replica_id"] == -1


def test_every_default_value_of_kafkas_schema_is_in_the_message_table() -> None:
    for message, defaults in DEFAULTS["defaults"].items():
        if message in log_records.BY_NAME:
            fields = log_records.BY_NAME[message].fields
        else:
            api = BY_NAME[message.removesuffix("Request").removesuffix("Response")]
            fields = api.request if message.endswith("Request") else api.response
        found = dict(walk(fields, ""))
        assert {path: found[path] for path in defaults} == defaults


def walk(fields: Any, prefix: str) -> Any:
    for field in fields:
        yield prefix + field.name, field.default
        inner = getattr(field.type, "element", field.type)
        yield from walk(getattr(inner, "fields", ()), f"{prefix}{field.name}.")


@pytest.mark.parametrize(
    ("text", "versions"),
    [("", []), ("0", [0]), ("2-4", [2, 3, 4]), ("3", [3])],
)
def test_range_of_versions_is_parsed(text: str, versions: list[int]) -> None:
    assert list(version_range(text)) == versions
    assert 32767 in version_range("5+")
    assert 4 not in version_range("5+")


def test_unknown_versions_of_requests_and_log_records_are_refused() -> None:
    with pytest.raises(ProtocolError, match="Heartbeat has no version 5: use 0 to 4"):
        BY_NAME["Heartbeat"].decode_request(5, b"")
    with pytest.raises(ProtocolError, match="OffsetCommitValue has no version 9"):
        log_records.decode("OffsetCommitValue", 9, b"")
    with pytest.raises(ProtocolError, match="unknown record type Nonsense"):
        log_records.encode("Nonsense", 0, {})


def test_message_table_is_imported_at_its_first_use() -> None:
    program = (
        "import sys; from protocol.messages import BY_KEY; "
        "before = len(sys.modules); assert 'protocol.messages.fetch' not in sys.modules; "
        "BY_KEY[1]; assert 'protocol.messages.fetch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=TOP, check=True)


@pytest.mark.parametrize("tool", ["make_messages", "make_codecs"])
def test_generated_files_equal_the_output_of_their_generators(tool: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for folder in ("protocol", "tools", "tests/data/schema"):
        for source in (TOP / folder).rglob("*"):
            if source.is_file() and source.suffix in (".py", ".json", ".c", ".h"):
                target = copy / source.relative_to(TOP)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
    (copy / "pyproject.toml").write_bytes((TOP / "pyproject.toml").read_bytes())
    (copy / "protocol/c/codecs.c").write_bytes(b"")
    for old in (*(copy / "protocol/messages").iterdir(), *(copy / "protocol/generated").iterdir()):
        if tool == "make_messages" or old.parent.name == "generated":
            old.write_bytes(b"")
    subprocess.run([sys.executable, f"tools/{tool}.py"], cwd=copy, check=True, capture_output=True)
    folders = ["protocol/messages"] if tool == "make_messages" else ["protocol/generated"]
    sources = [source for folder in folders for source in (TOP / folder).glob("*.py")]
    if tool == "make_codecs":
        sources.append(TOP / "protocol/c/codecs.c")
    for source in sources:
        assert (copy / source.relative_to(TOP)).read_text() == source.read_text(), source.name
