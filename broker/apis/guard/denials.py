"""Answers to requests that are denied as a whole, and the entries of elements that are.

Most follow from the tables of the messages (`broker/net/error_answers.py`). Here is what does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.net.error_answers import error_answer
from broker.net.request import Request
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    INCONSISTENT_GROUP_PROTOCOL,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.messages.add_partitions_to_txn import API as ADD_PARTITIONS_TO_TXN
from protocol.messages.alter_replica_log_dirs import API as ALTER_REPLICA_LOG_DIRS
from protocol.messages.alter_user_scram_credentials import API as ALTER_USER_SCRAM_CREDENTIALS
from protocol.messages.describe_client_quotas import API as DESCRIBE_CLIENT_QUOTAS
from protocol.messages.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from protocol.messages.describe_user_scram_credentials import API as DESCRIBE_USER_SCRAM_CREDENTIALS
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.leave_group import API as LEAVE_GROUP
from protocol.messages.list_partition_reassignments import API as LIST_PARTITION_REASSIGNMENTS
from protocol.messages.offset_delete import API as OFFSET_DELETE
from protocol.messages.sync_group import API as SYNC_GROUP
from protocol.schema import Array

TEXTS: Mapping[int, str] = {
    TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""What Kafka says beside the codes: nothing of whether the resource is there."""
_ENCODED_AT_ONCE_BYTES = 2048
"""A request up to this names few things, and its denial is made in the loop's thread."""

Answer = dict[str, Any]


def deny(request: Request, error_code: int) -> None:
    """Ends a request of which nothing is allowed. Raises ProtocolError for one that is not whole.

    That of a large request is made by the worker.
    """
    small = len(request.buffer) - request.position <= _ENCODED_AT_ONCE_BYTES
    if small:
        answer, error_code = _denial(request, request.value, error_code)
        request.respond(answer, error_code)
        return

    def frame() -> bytes:
        served, version = request.served, request.api_version
        value = served.api.decode_request(version, request.buffer, request.position)
        return request.frame(_denial(request, value, error_code)[0])

    request.complete_later(frame, error_code)


def denied_entries(
    request: Request, value: Mapping[str, Any], elements: str, denied: list[Any], error_code: int
) -> list[Answer]:
    """What the answer says of the denied elements of the array ``elements``."""
    answer = error_answer(
        request.served.api,
        request.api_version,
        {**value, elements: denied},
        error_code,
        TEXTS.get(error_code),
    )
    return next(each for each in answer.values() if isinstance(each, list) and each)


def _denial(request: Request, value: Mapping[str, Any], error_code: int) -> tuple[Answer, int]:
    api, version = request.served.api, request.api_version
    odd = _ODD.get(api.key)
    if odd is not None:
        return odd(value, version, error_code)
    if api.key in _TOP_ONLY and version >= _TOP_ONLY[api.key]:
        answer: Answer = {field.name: [] for field in api.response if isinstance(field.type, Array)}
        answer["error_code"] = error_code
        if any(field.name == "error_message" for field in api.response):
            answer["error_message"] = TEXTS[error_code]
        return answer, error_code
    return error_answer(api, version, value, error_code, TEXTS.get(error_code)), error_code


def _join_group(
    value: Mapping[str, Any],  # noqa: ARG001
    version: int,
    error_code: int,
) -> tuple[Answer, int]:
    nobody = {"generation_id": -1, "leader": "", "member_id": "", "members": []}
    return {
        "error_code": error_code,
        "protocol_name": None if version >= 7 else "",
        **nobody,
    }, error_code


def _sync_group(value: Mapping[str, Any], version: int, error_code: int) -> tuple[Answer, int]:
    """A request that lacks what its version must have is told that first."""
    if version >= 5 and (value["protocol_type"] is None or value["protocol_name"] is None):
        error_code = INCONSISTENT_GROUP_PROTOCOL
    return {"error_code": error_code, "assignment": b""}, error_code


def alter_replica_log_dirs_denied(
    value: Mapping[str, Any],
    version: int,  # noqa: ARG001
    error_code: int,
) -> tuple[Answer, int]:
    """The request has topics in directories, its answer has the topics alone."""
    results = [
        {
            "topic_name": topic["name"],
            "partitions": [
                {"partition_index": index, "error_code": error_code}
                for index in topic["partitions"]
            ],
        }
        for directory in value["dirs"]
        for topic in directory["topics"]
    ]
    return {"results": results}, error_code


def _alter_user_scram_credentials(
    value: Mapping[str, Any],
    version: int,  # noqa: ARG001
    error_code: int,
) -> tuple[Answer, int]:
    users = {each["name"] for each in (*value["deletions"], *value["upsertions"])}
    results = [
        {"user": name, "error_code": error_code, "error_message": TEXTS[error_code]}
        for name in sorted(users)
    ]
    return {"results": results}, error_code


def _describe_client_quotas(
    value: Mapping[str, Any],  # noqa: ARG001
    version: int,  # noqa: ARG001
    error_code: int,
) -> tuple[Answer, int]:
    message = TEXTS[error_code]
    return {"error_code": error_code, "error_message": message, "entries": None}, error_code


def _describe_user_scram_credentials(
    value: Mapping[str, Any],
    version: int,  # noqa: ARG001
    error_code: int,
) -> tuple[Answer, int]:
    told = {"error_code": error_code, "error_message": TEXTS[error_code]}
    nobody = {"user": "", **told, "credential_infos": []}
    return {**told, "results": [nobody for _ in value["users"] or ()]}, error_code


_TOP_ONLY = {
    ADD_PARTITIONS_TO_TXN.key: 4,
    DESCRIBE_LOG_DIRS.key: 0,
    LEAVE_GROUP.key: 0,
    LIST_PARTITION_REASSIGNMENTS.key: 0,
    OFFSET_DELETE.key: 0,
}
"""The first versions whose denials say nothing but the error of the whole request."""
_ODD: Mapping[int, Callable[[Mapping[str, Any], int, int], tuple[Answer, int]]] = {
    JOIN_GROUP.key: _join_group,
    SYNC_GROUP.key: _sync_group,
    ALTER_REPLICA_LOG_DIRS.key: alter_replica_log_dirs_denied,
    ALTER_USER_SCRAM_CREDENTIALS.key: _alter_user_scram_credentials,
    DESCRIBE_CLIENT_QUOTAS.key: _describe_client_quotas,
    DESCRIBE_USER_SCRAM_CREDENTIALS.key: _describe_user_scram_credentials,
}
