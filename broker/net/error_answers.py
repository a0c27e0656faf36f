"""Builds the response of any API, in any version, that reports one error. Only the test mode sends
these responses; the handlers of requests build their own error responses.

The tables of `protocol/messages` show where a response has error codes, which is enough for nearly
all APIs. The response has an entry for each topic, partition, group or member in the request. An
error of the whole request is in every error field of the response. An error of partitions or topics
is only in the error fields of the innermost entries, because clients read it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol import errors
from protocol.schema import RECORDS, STRING, Api, Array, Field, Primitive, Struct, version_range

OF_ELEMENTS = frozenset(
    {
        errors.OFFSET_OUT_OF_RANGE,
        errors.CORRUPT_MESSAGE,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.INVALID_FETCH_SIZE,
        errors.LEADER_NOT_AVAILABLE,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.REPLICA_NOT_AVAILABLE,
        errors.MESSAGE_TOO_LARGE,
        errors.OFFSET_METADATA_TOO_LARGE,
        errors.INVALID_TOPIC_EXCEPTION,
        errors.RECORD_LIST_TOO_LARGE,
        errors.NOT_ENOUGH_REPLICAS,
        errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        errors.INVALID_COMMIT_OFFSET_SIZE,
        errors.TOPIC_AUTHORIZATION_FAILED,
        errors.INVALID_TIMESTAMP,
        errors.TOPIC_ALREADY_EXISTS,
        errors.INVALID_PARTITIONS,
        errors.INVALID_REPLICATION_FACTOR,
        errors.INVALID_REPLICA_ASSIGNMENT,
        errors.INVALID_CONFIG,
        errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        errors.DUPLICATE_SEQUENCE_NUMBER,
        errors.OPERATION_NOT_ATTEMPTED,
        errors.KAFKA_STORAGE_ERROR,
        errors.UNKNOWN_PRODUCER_ID,
        errors.FENCED_LEADER_EPOCH,
        errors.UNKNOWN_LEADER_EPOCH,
        errors.OFFSET_NOT_AVAILABLE,
        errors.PREFERRED_LEADER_NOT_AVAILABLE,
        errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        errors.ELECTION_NOT_NEEDED,
        errors.GROUP_SUBSCRIBED_TO_TOPIC,
        errors.INVALID_RECORD,
        errors.UNSTABLE_OFFSET_COMMIT,
        errors.UNKNOWN_TOPIC_ID,
        errors.INCONSISTENT_TOPIC_ID,
    }
)
"""The errors that apply to single topics or partitions. With such an error, the response's
top-level error code is NONE."""

_SOURCES: Mapping[str, Sequence[str]] = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "coordinators": ("coordinator_keys",),
    "groups": ("group_ids",),
    "results": (
        "resources",
        "feature_updates",
        "topics",
        "groups_names",
        "creations",
        "users",
        "deletions",
        "upsertions",
    ),
    "filter_results": ("filters",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_partition": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "transaction_states": ("transactional_ids",),
}
"""For each array in responses that has one entry per element of an array in the request: the
possible names of the request's array, by the name of the response's array."""

_IDENTITY = (
    "name", "topic", "topic_name", "topic_id", "partition", "partition_index", "index",
    "partition_id", "group_id", "member_id", "group_instance_id", "transactional_id",
    "producer_id", "key", "resource_type", "resource_name", "entity", "user", "feature",
)  # fmt: skip
"""The fields by which an element of a response identifies the corresponding element of the request.
"""
_OTHER_NAMES = {
    "partition_index": "partition", "topic": "name", "name": "topic", "user": "name",
}  # fmt: skip
"""The identifying fields that have one name in the response and another name in the request. The
key is the response's name of the field, the value the request's name."""

_UNKNOWN = frozenset(
    {
        "base_offset", "log_append_time_ms", "log_start_offset", "high_watermark",
        "last_stable_offset", "timestamp", "offset", "end_offset", "leader_epoch",
        "committed_offset", "committed_leader_epoch", "low_watermark", "generation_id", "node_id",
        "port", "producer_id", "producer_epoch", "preferred_read_replica", "controller_id",
        "num_partitions", "replication_factor",
    }
)  # fmt: skip
"""The numeric fields that Kafka sets to -1 in a response with an error."""


def error_answer(
    api: Api, version: int, asked: Mapping[str, Any], error_code: int, text: str | None
) -> dict[str, Any]:
    """Returns a response to the request ``asked`` that has ``error_code`` in its error fields and
    ``text`` in its message fields."""
    return _Answer(version, error_code, text).whole(api.response, api.request, asked)


def is_error_code(field: Field) -> bool:
    return field.name in ("error_code", "partition_error_code")


class _Answer:
    def __init__(self, version: int, error_code: int, text: str | None) -> None:
        self._version = version
        self._error_code = error_code
        self._text = text
        self._presents: dict[int, list[Field]] = {}
        """The fields of a struct that exist in the response's version, by ``id()`` of the struct's
        field list."""
        self._errors: dict[int, bool] = {}
        """True if a struct has an error code, by the ``id()`` of the struct's field list."""

    def whole(
        self, response: Sequence[Field], request: Sequence[Field], asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        answer = self._struct(response, request, asked)
        if self._has("member_id", response) and self._has("member_id", request):
            answer["member_id"] = asked["member_id"]  # a joining member keeps its id
        return answer

    def _struct(
        self, fields: Sequence[Field], request: Sequence[Field], asked: Mapping[str, Any]
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        inner = False
        for field in self._present(fields):
            elements = self._elements(field, request, asked)
            if elements is not None:
                answer[field.name] = elements
                inner = inner or bool(elements)
            elif self._is_unknown(field, fields):
                answer[field.name] = -1
            elif field.type is RECORDS:
                answer[field.name] = b""  # librdkafka rejects null
        spared = inner and self._error_code in OF_ELEMENTS
        for field in self._present(fields):
            if is_error_code(field):
                answer[field.name] = errors.NONE if spared else self._error_code
            elif field.name == "error_message" and not spared:
                answer[field.name] = self._text
        return answer

    def _is_unknown(self, field: Field, fields: Sequence[Field]) -> bool:
        if field.name not in _UNKNOWN or self._has("transaction_state", fields):
            return False  # DescribeTransactions sets 0, not -1, with an error
        return isinstance(field.type, Primitive) and bool(field.type.format)

    def _elements(
        self, field: Field, request: Sequence[Field], asked: Mapping[str, Any]
    ) -> list[dict[str, Any]] | None:
        """Returns the elements of a response array, one for each element of the corresponding
        request array. Returns None if the request has no such array."""
        if not isinstance(field.type, Array) or not isinstance(field.type.element, Struct):
            return None
        fields = field.type.element.fields
        if not self._says_error(fields):
            return None
        found: list[dict[str, Any]] = []
        for name in (field.name, *_SOURCES.get(field.name, ())):
            for source in self._present(request):
                if source.name == name and isinstance(source.type, Array):
                    element = source.type.element
                    made = [self._element(fields, element, each) for each in asked[name] or ()]
                    found += [each for each in made if each not in found]
        return found

    def _element(
        self, fields: Sequence[Field], source: Primitive | Struct, asked: Any
    ) -> dict[str, Any]:
        if isinstance(source, Primitive):
            answer = self._struct(fields, (), {})
            answer[self._naming(fields, source)] = asked
            return answer
        answer = self._struct(fields, source.fields, asked)
        for name in _IDENTITY:
            if self._has(name, fields):
                for known_as in (name, _OTHER_NAMES.get(name, name)):
                    if self._has(known_as, source.fields):
                        answer[name] = asked[known_as]
                        break
        return answer

    def _naming(self, fields: Sequence[Field], source: Primitive) -> str:
        """Returns the name of the field of a response struct that contains a name or an id, such as
        ``name``. Called for an array of names or ids in the request, if the response has one struct
        for each of these names or ids."""
        for field in self._present(fields):
            if field.name in _IDENTITY and (field.type is STRING) == (source is STRING):
                return field.name
        raise AssertionError(
            f"none of these fields is a name or an id: {[field.name for field in fields]}"
        )

    def _says_error(self, fields: Sequence[Field]) -> bool:
        known = self._errors.get(id(fields))
        if known is None:
            known = self._errors[id(fields)] = self._has_error(fields)
        return known

    def _has_error(self, fields: Sequence[Field]) -> bool:
        return any(
            is_error_code(field)
            or (
                isinstance(field.type, Array)
                and isinstance(field.type.element, Struct)
                and self._says_error(field.type.element.fields)
            )
            for field in self._present(fields)
        )

    def _present(self, fields: Sequence[Field]) -> list[Field]:
        present = self._presents.get(id(fields))
        if present is None:
            present = self._presents[id(fields)] = [
                field for field in fields if self._version in version_range(field.versions)
            ]
        return present

    def _has(self, name: str, fields: Sequence[Field]) -> bool:
        return any(field.name == name for field in self._present(fields))
