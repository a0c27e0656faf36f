"""The most expensive requests of 1 MB that an API allows, generated from the schema of the API.

For each array at any depth, there are requests with as many elements as fit into 1 MB, and requests
with as many elements as the API's budget allows. In each request, the elements are either empty, or
distinct, or the names of existing objects, or of the maximum length. Other requests have many
tagged fields. Some Produce batches decompress to large sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from broker.apis.tables.standalone import SERVED
from protocol.encoded_array import element_at
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from protocol.schema import STRING, Api, Array, Field, Primitive, Struct, Type, version_range
from protocol.wire import varint
from tests.protocol.claims import array_paths

BYTES = 1_000_000
TOPICS = [f"topic-{number}" for number in range(30)]
GROUPS = [f"group-{number}" for number in range(200)]
OF_GROUPS = {"groups", "groups_names", "coordinator_keys"}
"""Arrays whose strings are names of groups. In other arrays, the strings are names of topics."""
PAYER = "payer"
WITHIN_BUDGET = "empty within the budget"
LONG = 32_000
"""The number of characters of a long string. The maximum of the protocol is 32,767."""

HINTS: dict[str, dict[str, Any]] = {
    # Values with which the broker does the most work for a request, by API. The known transactional
    # id has the first producer id.
    "AddOffsetsToTxn": {"transactional_id": PAYER, "producer_id": 0},
    "AddPartitionsToTxn": {
        "transactional_id": PAYER,
        "v3_and_below_transactional_id": PAYER,
        "producer_id": 0,
        "v3_and_below_producer_id": 0,
    },
    "AlterConfigs": {"resource_type": 2, "validate_only": True},
    "CreatePartitions": {"count": 2, "validate_only": True},
    "CreateTopics": {"num_partitions": 1, "replication_factor": 1, "validate_only": True},
    "DescribeConfigs": {
        "resource_type": 2,
        "configuration_keys": None,
        "include_synonyms": True,
        "include_documentation": True,
    },
    "EndTxn": {"transactional_id": PAYER, "producer_id": 0},
    "DescribeTopicPartitions": {"response_partition_limit": 1 << 30, "cursor": None},
    "Fetch": {"partition_max_bytes": 1 << 20, "max_bytes": 1 << 30, "session_epoch": -1},
    "IncrementalAlterConfigs": {"resource_type": 2, "validate_only": True},
    "InitProducerId": {"transaction_timeout_ms": 60_000},
    "JoinGroup": {"session_timeout_ms": 6_000, "protocol_type": "consumer"},
    "Metadata": {"include_topic_authorized_operations": True},
    "OffsetCommit": {"generation_id_or_member_epoch": -1},
    "Produce": {"acks": -1, "timeout_ms": 1_000},
}
DELETES = ("DeleteTopics", "DeleteGroups", "DeleteRecords", "OffsetDelete")
"""APIs that are tested last, because they delete objects that the tests of other APIs need."""


class Expensive(NamedTuple):
    """One expensive request."""

    api: str
    version: int
    shape: str
    body: bytes


def requests(
    api: Api, version: int, budget: int | None, thorough: bool = True
) -> Iterator[Expensive]:
    """Yields the expensive requests of an API in one version. If ``thorough`` is True, yields more
    variants: other texts in the elements, many tagged fields, and other Produce batches."""
    for shape, value in _values(api, version, budget, thorough):
        yield Expensive(api.name, version, shape, api.encode_request(version, value))
    if thorough and api.is_flexible(version):
        yield Expensive(api.name, version, "tagged fields", _tags(api, version))


def _values(
    api: Api, version: int, budget: int | None, thorough: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    hints = HINTS.get(api.name, {})
    plain = _filled(api.request, version, hints, "")
    yield "nothing", plain
    for field in api.request:
        if isinstance(field.type, Array) and version in version_range(field.nullable):
            yield f"{field.name}: null", {**plain, field.name: None}
    if api.name == "Produce" and thorough:
        yield from _produced(plain, version)
    for path in array_paths(tuple(api.request), version):
        where = ".".join(path)
        known = "groups" if path[0] in OF_GROUPS else "topics"
        yield f"{where}: empty", _many(api, version, path, "empty", None, hints)
        if budget is not None:
            value = _many(api, version, path, "empty", budget, hints)
            yield f"{where}: {WITHIN_BUDGET}", value
        has_text = _has_text(_element_at(api, path))
        for texts in ("distinct", known, "long") if thorough and has_text else ():
            value = _many(api, version, path, texts, budget, hints)
            yield f"{where}: {texts}", value


def _many(
    api: Api, version: int, path: tuple[str, ...], texts: str, most: int | None, hints: Any
) -> dict[str, Any]:
    """Returns a request with a long array at ``path``. The array has ``most`` elements, or fewer if
    the request would be larger than 1 MB. Each enclosing array has one entry."""
    array = api.message(version, is_request=True).array(*path)
    element = _element_at(api, path)
    room = BYTES - 100
    if texts == "empty":
        array.append(_element(element, version, hints, ""))
        size = max(1, len(array.data))
        array.count = min(room // size, (most or room) - len(path))
        array.data = array.data * array.count
    else:
        number = 0
        while len(array.data) < room and number < (most or room) - len(path):
            array.append(_element(element, version, hints, _text(texts, number), number))
            number += 1
    value: Any = array
    for depth in range(len(path) - 1, -1, -1):
        outer = _element_at(api, path[:depth])
        assert isinstance(outer, Struct)
        around = _filled(outer.fields, version, hints, _text(texts, 0))
        around[path[depth]] = value
        value = [around] if depth and _is_array(api, path[:depth]) else around
    whole: dict[str, Any] = value
    return whole


def _is_array(api: Api, path: Sequence[str]) -> bool:
    """Returns True if the field at ``path`` is an array. Otherwise it is a struct."""
    outer = _element_at(api, path[:-1])
    assert isinstance(outer, Struct)
    return any(isinstance(each.type, Array) for each in outer.fields if each.name == path[-1])


def _element_at(api: Api, path: Sequence[str]) -> Type:
    return element_at(api.request, path)


def _has_text(element: Type) -> bool:
    if isinstance(element, Struct):
        return any(_has_text(field.type) for field in element.fields)
    return element is STRING


def _text(texts: str, number: int) -> str:
    if texts == "topics":
        return TOPICS[number % len(TOPICS)]
    if texts == "groups":
        return GROUPS[number % len(GROUPS)]
    if texts == "long":
        return f"{number:08}" + "x" * (LONG - 8)
    return "" if texts == "empty" else f"n{number}"


def _element(element: Type, version: int, hints: Any, text: str, number: int = 0) -> Any:
    if isinstance(element, Struct):
        return _filled(element.fields, version, hints, text, number)
    assert isinstance(element, Primitive)
    if element is STRING:
        return text
    return number % 10 if element.format in ("i", "h", "b") else element.default


def _filled(
    fields: Sequence[Field], version: int, hints: Any, text: str, number: int = 0
) -> dict[str, Any]:
    """Returns a struct with ``text`` as the value of each string and ``number`` as the value of
    each index. Each array has at most one entry."""
    value: dict[str, Any] = {}
    for field in fields:
        if version not in version_range(field.versions) or field.tag is not None:
            continue
        kind = field.type
        if field.name in hints:
            value[field.name] = hints[field.name]
        elif isinstance(kind, Array):
            deeper = text and not isinstance(kind.element, Primitive)
            value[field.name] = [_element(kind.element, version, hints, text)] if deeper else []
        elif isinstance(kind, Struct):
            value[field.name] = _filled(kind.fields, version, hints, text)
        elif kind is STRING:
            value[field.name] = text or ("group-0" if field.name == "group_id" else "")
        elif field.name in ("partition", "partition_index", "index"):
            value[field.name] = number % 10
        if value.get(field.name, 0) is None and version not in version_range(field.nullable):
            del value[field.name]
    return value


def _tags(api: Api, version: int) -> bytes:
    """Returns a request of about 1 MB that consists almost only of empty unknown tagged fields."""
    body = api.encode_request(version, _filled(api.request, version, HINTS.get(api.name, {}), ""))
    count = (BYTES - len(body)) // 4
    tags = b"".join(varint(1000 + tag) + b"\0" for tag in range(count))
    return body[:-1] + varint(count) + tags


def _produced(plain: dict[str, Any], version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields Produce requests: batches that decompress to a thousand times their size, and batches
    of many records."""
    if version < 3:
        return
    codecs = {1: "gzip", 4: "zstd"} if version >= 7 else {1: "gzip"}
    named = {"topic_id": bytes(16)} if version >= 13 else {"name": TOPICS[0]}
    for codec, name in codecs.items():
        bomb = encode_batch([Record(0, 1, None, bytes(90 << 20))], compression=codec)
        empties = [Record(number, 1, None, b"") for number in range(100_000)]
        many = encode_batch(empties, compression=codec)
        for shape, batch in (("bomb", bomb), ("of many records", many)):
            copies = max(1, min(10, BYTES // len(batch)))
            data = [{"index": index, "records": batch} for index in range(copies)]
            topic = {**named, "partition_data": data}
            yield f"{name} {shape}", {**plain, "topic_data": [topic]}


def campaign(wide: bool) -> Iterator[Expensive]:
    """Yields the expensive requests of each served API in its oldest and newest version. If
    ``wide``, in all versions."""
    rows = sorted(SERVED.values(), key=lambda row: (row.api.name in DELETES, row.api.key))
    for row in rows:
        newest, oldest = row.max_version, row.min_version
        for version in range(oldest, newest + 1) if wide else sorted({oldest, newest}):
            yield from requests(row.api, version, row.elements_max, wide or version == newest)


def within_budgets() -> Iterator[Expensive]:
    """Yields requests with as many array entries as the API's budget allows. APIs that delete are
    omitted."""
    for row in SERVED.values():
        if row.api.name not in DELETES:
            for version in {row.min_version, row.max_version}:
                plain = requests(row.api, version, row.elements_max, thorough=False)
                yield from (each for each in plain if each.shape.endswith(WITHIN_BUDGET))
