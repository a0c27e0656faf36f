"""A matrix of requests and ACLs, with the expected response of each cell.

Each request of the table has one cell for each list of ACLs. The table has the expected response
next to the ACLs, in the form that `told` returns. Each cell has its own user, so that the ACLs of
different cells do not interfere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from client.connection import Connection
from client.errors import Unreachable
from tests.interop.secured.brokers import Secured, called
from tests.waiting import until

Value = dict[str, Any]

OWN = "{own}"
"""A placeholder in requests. It is replaced by the name of the user that sends the request; the
topic and the group of this user have the same name."""
RESOURCES = {"TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "TOKEN": 6, "USER": 7}
LITERAL, PREFIXED = 3, 4
NOBODYS_ID = b"no topic has this"[:16]
OPERATIONS = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
    "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14,
}  # fmt: skip
DENY, ALLOW = 2, 3
KEPT = "kept"
_RIGHT = re.compile(r"(deny )?([A-Z_]+) ([A-Z_]+)(?: ([^@]+?))?(?:@(\S+))?")
_OF_A_CELL = re.compile(r"User:c\d{3}")
_LOGINS = (("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "PLAIN"))


class Fact(str):
    """A placeholder in a request, such as for the id of a topic. Before the request is sent, it is
    replaced by the value that the tested broker has generated."""


def id_of(topic: str) -> Fact:
    """Returns the placeholder for the id of a topic."""
    return Fact(f"id of {topic}")


@dataclass(frozen=True)
class Request:
    """One request, and the expected response for each list of ACLs of its user.

    An ACL is `deny? OPERATION TYPE NAME`, and `;` separates two ACLs. A NAME that ends with `*` is
    a prefix, and `*` alone means all names. `as certificate` is a login with a TLS certificate. `as
    ANONYMOUS` and `as admin` select these users.
    """

    name: str
    api: str
    version: int
    value: Value
    cells: Mapping[str, str]
    topic: str = ""
    """The name of a topic that is created for each cell, or ""."""
    group: str = ""
    """The name of a group that each cell of the matrix creates, with committed offsets; "" for no
    group."""
    transaction: str = ""
    """A transactional id that is created for each cell of the matrix, or ""."""
    again_after: int | None = None
    """The error code after which the request is repeated, as clients do."""


class Cell(NamedTuple):
    """One request of the table, with one list of ACLs."""

    request: Request
    rights: str
    expected: str
    user: str

    @property
    def id(self) -> str:
        rights = self.rights.replace(OWN, "own") or "no rights"
        return f"{self.request.name}, {self.request.api} {self.request.version}: {rights}"

    def own(self, text: str) -> str:
        """Returns ``text`` with the user name of this cell in place of the placeholder OWN."""
        return text.replace(OWN, self.user)

    @property
    def login(self) -> tuple[str, str | None, str]:
        if self.rights.startswith("as ANONYMOUS"):
            return "PLAINTEXT", None, "ANONYMOUS"
        if self.rights.startswith("as admin"):
            return "SASL_SSL", "PLAIN", "admin"
        if self.rights.startswith("as certificate"):
            return "SSL", None, self.user
        return (*_LOGINS[int(self.user[1:]) % len(_LOGINS)], self.user)

    def acls(self) -> Iterator[Value]:
        for right in filter(None, self.rights.split("; ")):
            if right.startswith("as "):
                continue
            found = _RIGHT.fullmatch(right)
            assert found, right
            denied, operation, kind, name, host = found.groups()
            name = self.own(name or "kafka-cluster")
            prefixed = len(name) > 1 and name.endswith("*")
            yield {
                "resource_type": RESOURCES[kind],
                "resource_name": name[:-1] if prefixed else name,
                "resource_pattern_type": PREFIXED if prefixed else LITERAL,
                "principal": f"User:{self.user}",
                "host": host or "*",
                "operation": OPERATIONS[operation],
                "permission_type": DENY if denied else ALLOW,
            }


def cells_of(requests: Iterable[Request]) -> list[Cell]:
    found = [(request, *cell) for request in requests for cell in request.cells.items()]
    return [Cell(*each, user=f"c{number:03}") for number, each in enumerate(found)]


@dataclass
class Side:
    """One of the two brokers that are compared."""

    name: str
    secured: Secured
    facts: dict[str, Any] = field(default_factory=dict)
    """The value of each `Fact` on this broker."""
    topics: dict[bytes, str] = field(default_factory=dict)
    """The name of each topic, by its id."""

    def prepare(
        self,
        cells: list[Cell],
        topics: Mapping[str, int],
        groups: list[str],
        transactions: list[str],
    ) -> None:
        """Creates the topics, groups, transactional ids and ACLs of all cells."""
        made = dict(topics)
        made |= {cell.own(cell.request.topic): 1 for cell in cells if cell.request.topic}
        self._make_topics(made)
        self._keep_for_kept()
        for kind, key in enumerate(("kept", "pay")):  # creates the coordinators' own topics
            asked = {"key": key, "key_type": kind}
            until(
                f"{key} is led",
                lambda asked=asked: _if_fine(self.call("FindCoordinator", 3, asked)),
            )
        for group in [*groups, *(cell.own(cell.request.group) for cell in cells)]:
            if group:
                self._commit(group)
        for begun in [*transactions, *(cell.own(cell.request.transaction) for cell in cells)]:
            if begun:
                self._begin(begun)
        acls = [acl for cell in cells for acl in cell.acls()]
        answer = self.call("CreateAcls", 3, {"creations": acls})
        assert {each["error_code"] for each in answer["results"]} == {0}, answer
        any_acl = {
            "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        asked = len(set(map(str, acls)))
        until("all rights are there", lambda: self._count(any_acl) == asked)

    def _count(self, any_acl: Value) -> int:
        found = self.call("DescribeAcls", 3, any_acl)["resources"]
        principals = [acl["principal"] for resource in found for acl in resource["acls"]]
        return len([each for each in principals if _OF_A_CELL.fullmatch(each)])

    def _keep_for_kept(self) -> None:
        """Creates SCRAM credentials, a quota and a delegation token for the user KEPT."""
        self.secured.add_scram_users(KEPT)
        entity = {"entity_type": "user", "entity_name": KEPT}
        quota = {"key": "producer_byte_rate", "value": 1e9, "remove": False}
        asked: Value = {
            "validate_only": False, "entries": [{"entity": [entity], "ops": [quota]}],
        }  # fmt: skip
        answer = self.call("AlterClientQuotas", 1, asked)
        assert {each["error_code"] for each in answer["entries"]} == {0}, answer
        asked = {
            "owner_principal_type": "User", "owner_principal_name": KEPT, "renewers": [],
            "max_lifetime_ms": 600_000,
        }  # fmt: skip
        assert _if_fine(self.call("CreateDelegationToken", 3, asked))
        until("the token is there", lambda: self.call(
            "DescribeDelegationToken", 3, {"owners": None})["tokens"])  # fmt: skip

    def _have_led(self, kind: int, key: str) -> None:
        asked = {"key": key, "key_type": kind}
        until(f"{key} is led", lambda: _if_fine(self.call("FindCoordinator", 3, asked)))

    def call(self, name: str, version: int, value: Value) -> Value:
        return called(self.secured, name, value, version)

    def _make_topics(self, made: Mapping[str, int]) -> None:
        asked = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in made.items()
        ]
        answer = self.call("CreateTopics", 7, {"topics": asked, "timeout_ms": 30_000})
        assert {each["error_code"] for each in answer["topics"]} == {0}, answer
        self.topics = {each["topic_id"]: each["name"] for each in answer["topics"]}
        self.topics[NOBODYS_ID] = "absent"
        self.facts |= {id_of(name): id_ for id_, name in self.topics.items()}
        until("all topics are served", lambda: self._are_led(made))

    def _are_led(self, made: Mapping[str, int]) -> bool:
        asked = {"topics": [{"name": name} for name in made], "allow_auto_topic_creation": False}
        found = self.call("Metadata", 9, asked)["topics"]
        return all(not t["error_code"] and all(p["leader_id"] >= 0 for p in t["partitions"])
                   for t in found)  # fmt: skip

    def _commit(self, group: str) -> None:
        topics = [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 7}]}
            for name in ("open", "shut")
        ]
        asked = {"group_id": group, "topics": topics}
        until(
            f"{group} commits",
            lambda: {p["error_code"] for t in self.call("OffsetCommit", 8, asked)["topics"]
                     for p in t["partitions"]} == {0},
        )  # fmt: skip

    def _begin(self, transactional_id: str) -> None:
        asked = {"transactional_id": transactional_id, "transaction_timeout_ms": 600_000}
        answer = until(
            f"{transactional_id} has a producer",
            lambda: _if_fine(self.call("InitProducerId", 4, asked)),
        )
        self.facts[f"producer of {transactional_id}"] = answer["producer_id"]

    def ask(self, cell: Cell) -> Value:
        """Sends the request of a cell. Returns the normalized response, or "closed" if the broker
        closed the connection."""
        connection = self.secured.connect(*cell.login)
        try:
            if cell.request.again_after is None:
                return self._asked(cell, connection)
            again = f":{cell.request.again_after}"
            return until(
                f"an answer without error {cell.request.again_after}",
                lambda: _without(again, self._asked(cell, connection)),
                tolerate=(),
            )
        except Unreachable as error:
            if "closed the connection" not in str(error):
                raise
            return {"closed": True}
        finally:
            connection.close()

    def _asked(self, cell: Cell, connection: Connection) -> Value:
        value = self._own(cell, cell.request.value)
        answer = connection.call(cell.request.api, value, version=cell.request.version)
        compared: Value = Normal(cell, self).of(answer)
        return compared

    def _own(self, cell: Cell, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._own(cell, part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._own(cell, part) for part in value]
        if isinstance(value, Fact):
            return self.facts[cell.own(value)]
        return cell.own(value) if isinstance(value, str) else value


def _if_fine(answer: Value) -> Value | None:
    return answer if answer["error_code"] == 0 else None


def _without(error: str, answer: Value) -> Value | None:
    return None if re.search(rf"{error}\b", told(answer)) else answer


NAMES = (
    "name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_name", "user",
    "partition_index", "partition", "index", "partition_id", "principal", "principal_name",
)  # fmt: skip
CODES = ("error_code", "partition_error_code", "topic_config_error_code")
_FREE = {
    "throttle_time_ms", "host", "port", "node_id", "broker_id", "controller_id", "leader_id",
    "leader_epoch", "brokers", "cluster_id", "config_source", "log_dir", "total_bytes",
    "usable_bytes", "node_endpoints", "current_leader", "issue_timestamp_ms",
    "expiry_timestamp_ms", "max_timestamp_ms", "issue_timestamp", "expiry_timestamp",
    "max_timestamp", "session_id", "heartbeat_interval_ms", "replica_nodes", "isr_nodes",
    "eligible_leader_replicas", "last_known_elr", "finalized_features", "supported_features",
    "finalized_features_epoch", "api_keys", "partition_size", "committed_leader_epoch",
    "transaction_start_time_ms", "session_lifetime_ms", "synonyms", "documentation",
    "error_message", "last_timestamp",
}  # fmt: skip
"""Fields that are not compared, such as addresses, times and messages."""
_KINDS = {"records", "hmac", "token_id", "member_id", "leader", "configs"}
"""Fields whose values may differ between the brokers. The test compares only whether such a value
is null, is empty, or has content."""
_SIGNS = {
    "base_offset", "producer_id", "producer_epoch", "high_watermark", "last_stable_offset",
    "offset", "end_offset", "timestamp", "low_watermark",
}  # fmt: skip
"""Fields of which the test compares only the sign."""


class Normal:
    """Removes from responses the values that may differ between equivalent brokers."""

    def __init__(self, cell: Cell, side: Side) -> None:
        self._cell = cell
        self._side = side

    def of(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._field(key, part) for key, part in value.items() if key not in _FREE}
        if isinstance(value, list):
            return sorted((self.of(part) for part in value), key=str)
        return value.replace(self._cell.user, "own") if isinstance(value, str) else value

    def _field(self, key: str, value: Any) -> Any:
        if key == "topic_id":
            return self._side.topics.get(value, "another" if any(value) else "none").replace(
                self._cell.user, "own"
            )
        if key in _KINDS:
            return "null" if value is None else "some" if value else "none"
        if key in _SIGNS:
            return "some" if value >= 0 else "none"
        return self.of(value)


def told(answer: Value) -> str:
    """Returns the names and error codes in a normalized response as text, such as `open: 0 0/0
    1/29`."""
    if "closed" in answer:
        return "closed"
    return " ".join(_told(answer))


def _told(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            if isinstance(part, dict):
                yield from _told(part)
        return
    names = [str(value[name]) for name in NAMES if value.get(name) not in (None, "")]
    id_ = value.get("topic_id", "none")
    if id_ != "none" and id_ not in names:
        names.append(f"<{id_}>")
    codes = [str(value[code]) for code in CODES if code in value]
    if names or codes:
        yield "/".join(names) + (":" + ",".join(codes) if codes else "")
    for key, part in value.items():
        if isinstance(part, list | dict):
            yield from _told(part if isinstance(part, list) else [part])
        if key.endswith("authorized_operations") and part != -(2**31):
            yield f"may={part}"
