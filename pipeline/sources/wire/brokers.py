"""Connections to the brokers of a cluster. They count the bytes that they send and receive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from client.connection import Address, Connection, Value
from client.errors import ClientError, NoBroker
from client.errors import Unreachable as NoAnswer
from client.security import PLAINTEXT, Security
from pipeline import clock
from pipeline.errors import PipelineError, Unreachable
from pipeline.sources.group_records import topic_id_text
from protocol import errors

CLIENT_ID: Final = "muster-pipeline"
TIMEOUT_S: Final = 30.0
RETRY_S: Final = 0.1
MOVED: Final = frozenset(
    {
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.LEADER_NOT_AVAILABLE,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.REQUEST_TIMED_OUT,
        errors.BROKER_NOT_AVAILABLE,
        errors.REPLICA_NOT_AVAILABLE,
        errors.NETWORK_EXCEPTION,
        errors.KAFKA_STORAGE_ERROR,
        errors.FENCED_LEADER_EPOCH,
        errors.UNKNOWN_LEADER_EPOCH,
        errors.OFFSET_NOT_AVAILABLE,
    }
)
"""Error codes of a partition that are probably temporary: a retry, perhaps at another broker, makes
sense."""
_NO_ID: Final = bytes(16)

Partition = tuple[str, int]


@dataclass(frozen=True)
class Reach:
    """The addresses and the settings with which a cluster is reached. It can be pickled, so that
    executors receive it."""

    addresses: tuple[Address, ...]
    security: Security = PLAINTEXT
    timeout_s: float = TIMEOUT_S
    """The maximum time in seconds to wait for one response, or for a partition to get a leader."""


@dataclass
class View:
    """The state of a cluster according to the last Metadata response."""

    cluster_id: str | None = None
    brokers: dict[int, Address] = field(default_factory=dict)
    leaders: dict[Partition, int] = field(default_factory=dict)
    """The node id of each partition's leader; -1 if the partition has no leader."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Topic names by topic id, in Kafka's text form of a UUID. Empty if the cluster is older than
    Kafka 2.8."""

    def partitions(self, topic: str) -> list[int]:
        """Returns the partition numbers of a topic in order; empty if the topic does not exist."""
        return sorted(number for name, number in self.leaders if name == topic)


class Brokers:
    """The connections of one reader. Its methods raise PipelineError if the cluster denies access
    or does not answer."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.view = View()
        self._connections: dict[Address, Connection] = {}
        self._closed_bytes = 0

    def __enter__(self) -> Brokers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def moved_bytes(self) -> int:
        """The size in bytes of all requests and responses so far."""
        return self._closed_bytes + sum(each.moved_bytes for each in self._connections.values())

    def look(self, topics: Sequence[str] | None) -> View:
        """Requests Metadata of ``topics``, or of all topics for None. Returns the result and keeps
        it as `view`.

        Uses the first broker that answers. Raises Unreachable if no broker answers.
        """
        failure: PipelineError | None = None
        for address in dict.fromkeys([*self.reach.addresses, *self.view.brokers.values()]):
            try:
                self.view = self._view_of(self._connect(address), topics)
                return self.view
            except ClientError as error:
                self.drop(address)
                failure = failure or sentence(error)
        raise failure or PipelineError("no broker address was given: write HOST:PORT")

    def leader(self, partition: Partition) -> Connection | None:
        """Returns the connection to a partition's leader; None if the partition has no leader, or
        if the leader is down."""
        address = self.view.brokers.get(self.view.leaders.get(partition, -1))
        if address is None:
            return None
        try:
            return self._connect(address)
        except NoAnswer:
            return None
        except ClientError as error:
            raise sentence(error) from error

    def any_connection(self) -> Connection:
        """Returns a connection to any broker. After a call of `look`, it is a connection to the
        broker that answered the Metadata request. Raises Unreachable if no broker answers."""
        if not self._connections:
            self.look([])
        return next(reversed(self._connections.values()))

    def drop(self, address: Address) -> None:
        """Closes the connection to a broker that failed. The next request to the broker opens a new
        connection."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            self._closed_bytes += connection.moved_bytes
            connection.close()

    def close(self) -> None:
        for address in list(self._connections):
            self.drop(address)

    def _connect(self, address: Address) -> Connection:
        if address not in self._connections:
            reach = self.reach
            self._connections[address] = Connection(
                *address, CLIENT_ID, reach.timeout_s, reach.security
            )
        return self._connections[address]

    def _view_of(self, connection: Connection, topics: Sequence[str] | None) -> View:
        asked: list[Value] | None = None
        if topics is not None:
            asked = [{"topic_id": _NO_ID, "name": name} for name in topics]
        elif connection.version_of("Metadata") == 0:
            asked = []
        answer = connection.call("Metadata", {"topics": asked, "allow_auto_topic_creation": False})
        return View(
            answer["cluster_id"],
            {each["node_id"]: (each["host"], each["port"]) for each in answer["brokers"]},
            {
                (topic["name"], each["partition_index"]): each["leader_id"]
                for topic in answer["topics"]
                for each in topic["partitions"]
            },
            {
                topic_id_text(topic["topic_id"]): topic["name"]
                for topic in answer["topics"]
                if topic["topic_id"] != _NO_ID
            },
        )


class Patience:
    """A timeout that starts again each time the reader makes progress."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_s = clock.monotonic_s() + seconds

    def renew(self, more_s: float = 0.0) -> None:
        """Restarts the timeout after progress, with ``more_s`` additional seconds."""
        self._ends_s = clock.monotonic_s() + self._seconds + more_s

    @property
    def is_over(self) -> bool:
        return clock.monotonic_s() > self._ends_s


def sentence(error: ClientError) -> PipelineError:
    """Converts the error of a connection to a PipelineError."""
    if isinstance(error, NoBroker):
        return Unreachable(
            f"{error}: start a broker with `muster serve`, or name another address with --source"
        )
    return Unreachable(str(error)) if isinstance(error, NoAnswer) else PipelineError(str(error))


def refusal(partition: Partition, code: int, right: str) -> PipelineError:
    """Returns the error for a partition that a broker refuses to serve. ``right`` is the ACL
    operation that the client needs."""
    if code == errors.TOPIC_AUTHORIZATION_FAILED:
        return denial(f"{partition[0]}:{partition[1]}", [partition[0]], right)
    return PipelineError(
        f"{partition[0]}:{partition[1]}: {errors.NAMES.get(code, f'error {code}')}"
    )


def denial(where: str, topics: Sequence[str], *rights: str) -> PipelineError:
    """Returns the error for a client that lacks the ACL operations ``rights`` on ``topics``."""
    code = errors.NAMES[errors.TOPIC_AUTHORIZATION_FAILED]
    acls = "ACL" if len(rights) == 1 else "ACLs"
    named = "topic" if len(topics) == 1 else "topics"
    return PipelineError(
        f"{where}: {code}; the client needs the {acls} {' and '.join(rights)} on the {named}"
        f" {', '.join(topics)}"
    )


def grouped(partitions: Iterable[tuple[Partition, Value]]) -> list[tuple[str, list[Value]]]:
    """Groups the entries of a request by topic, ordered by the first entry of each topic."""
    topics: dict[str, list[Value]] = {}
    for (topic, _), entry in partitions:
        topics.setdefault(topic, []).append(entry)
    return list(topics.items())


def described(view: View, partitions: Iterable[Partition], seconds: float) -> str:
    """Returns a sentence about the first of ``partitions`` in alphabetical order: no broker served
    this partition within ``seconds``."""
    first = min(partitions)
    node = view.leaders.get(first, -1)
    who = "has no leader" if node not in view.brokers else f"is led by broker {node}"
    return (
        f"partition {first[0]}:{first[1]} {who}; no broker served the partition within"
        f" {seconds:g} s"
    )
