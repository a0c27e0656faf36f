"""The connections of commands to the brokers, leaders and coordinators of a cluster (Kafka 0.10 and
later)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import client.connection
from cli import clock
from cli.client.security import chosen
from cli.errors import UNREACHABLE, USAGE, CommandError, refused
from cli.patterns import nearest
from client.connection import Value
from client.errors import ClientError, NoBroker, NotAskable, Unreachable
from client.security import PLAINTEXT, Security
from protocol import errors

RETRY_S = 0.1
_NO_BOOTSTRAP = "; start a broker with `muster serve`, or choose another address with --bootstrap"
_NO_FELLOW = "; `muster cluster check` shows which brokers are down"
KEYS_AT_ONCE = 2000
"""The maximum number of keys in one FindCoordinator request."""
OF_GROUPS, OF_TRANSACTIONS = 0, 1
"""The kinds of coordinators: of groups, or of transactional ids."""


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of `HOST:PORT`, `[IPV6]:PORT` or `HOST`. A missing port means 9092."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text.strip(), "9092"
    host = host.strip("[]")
    if not host or not is_port(port):
        sentence = f"--bootstrap {text:.100}: write it as HOST:PORT, such as 127.0.0.1:9092"
        raise CommandError(sentence, USAGE)
    return host, int(port)


def is_port(text: str) -> bool:
    """Returns True if a text is a port number. ``int(text)`` is safe only for such a text: it
    raises ValueError for ``²`` and for 5,000 digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


class Connection(client.connection.Connection):
    """One blocking connection to one broker, with one request in flight. All its errors are
    CommandErrors."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_s: float,
        security: Security = PLAINTEXT,
    ) -> None:
        with command_errors():
            left_s = clock.Deadline(timeout_s).left_s
            super().__init__(host, port, client_id, timeout_s, security, left_s)

    def again(self) -> Connection:
        return Connection(self.host, self.port, self.client_id, self.timeout_s, self.security)

    def version_of(self, name: str) -> int:
        """Returns the newest version of an API that the broker and this command support. Raises
        CommandError if no version is common."""
        with command_errors():
            return super().version_of(name)

    def call(
        self, name: str, value: Value, timeout_s: float | None = None, version: int | None = None
    ) -> Value:
        """Sends one request and returns the decoded response. By default, uses the newest version
        that client and broker support."""
        with command_errors():
            return super().call(name, value, timeout_s, version)


@contextmanager
def command_errors() -> Iterator[None]:
    """Converts the errors of a connection to CommandErrors within this context."""
    try:
        yield
    except Unreachable as error:
        raise CommandError(str(error), UNREACHABLE) from error
    except NotAskable as error:
        raise CommandError(str(error), USAGE) from error
    except ClientError as error:
        raise CommandError(str(error)) from error


class Cluster:
    """The cluster at a bootstrap address, with one connection to each broker that is used."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "muster-cli",
        timeout_s: float = 30,
        security: Security | None = None,
    ) -> None:
        """Connects to the first address in ``bootstrap`` that can be reached. ``security`` defaults
        to the settings in the file of --command-config."""
        self.client_id = client_id
        self.security = chosen() if security is None else security
        self.timeout_s = timeout_s
        self.deadline = clock.Deadline(timeout_s)
        """The deadline for the first response: ``timeout_s`` seconds after the creation of this
        object."""
        self._bootstrap = bootstrap
        self._connections: dict[tuple[str, int], Connection] = {}
        self._more: dict[Connection, list[Connection]] = {}
        """Additional connections for parallel requests, by the first connection to the same broker.
        """
        self.any = self._connect_any()

    def _connect_any(self) -> Connection:
        failures: list[CommandError] = []
        for address in self._bootstrap.split(","):
            try:
                return self._connected(*parse_address(address), _NO_BOOTSTRAP)
            except CommandError as error:
                failures.append(error)
        raise failures[0]

    def reconnect(self) -> None:
        """Closes every connection and connects again. Requests in flight are abandoned."""
        self.close()
        self._connections.clear()
        self._more.clear()
        self.any = self._connect_any()

    def connect(self, host: str, port: int) -> Connection:
        """Returns the connection to a broker. Connects at the first use."""
        return self._connected(host, port, _NO_FELLOW)

    def _connected(self, host: str, port: int, advice: str) -> Connection:
        if (host, port) not in self._connections:
            try:
                connection = Connection(host, port, self.client_id, self.timeout_s, self.security)
            except CommandError as error:
                if isinstance(error.__cause__, NoBroker):
                    raise CommandError(error.why, UNREACHABLE, advice) from error
                raise
            self._connections[host, port] = connection
        return self._connections[host, port]

    def lanes(self, connection: Connection, number: int) -> list[Connection]:
        """Returns ``number`` connections to the broker of ``connection``, including ``connection``
        itself."""
        more = self._more.setdefault(connection, [])
        while len(more) < number - 1:
            more.append(connection.again())
        return [connection, *more[: number - 1]]

    def metadata(
        self,
        topics: list[str] | None,
        timeout_s: float | None = None,
        broker: Connection | None = None,
    ) -> Value:
        """Returns the Metadata response for ``topics``, or for every topic if None. No topic is
        created. ``broker`` receives the request, by default any broker."""
        connection = broker or self.any
        asked = None if topics is None else [{"topic_id": bytes(16), "name": t} for t in topics]
        if topics is None and connection.version_of("Metadata") == 0:
            asked = []
        asks = {"topics": asked, "allow_auto_topic_creation": False}
        return connection.call("Metadata", asks, timeout_s)

    def controller(self) -> Connection:
        """Returns the connection to the controller, or to any broker if the cluster has no
        controller."""
        answer = self.metadata([])
        for broker in answer["brokers"]:
            if broker["node_id"] == answer["controller_id"]:
                return self.connect(broker["host"], broker["port"])
        return self.any

    def brokers(self) -> Iterator[Connection]:
        for broker in self.metadata([])["brokers"]:
            yield self.connect(broker["host"], broker["port"])

    def broker(self, node_id: int) -> Connection:
        """Returns the connection to the broker with this id. Raises CommandError if the cluster has
        no such broker."""
        brokers = self.metadata([])["brokers"]
        for broker in brokers:
            if broker["node_id"] == node_id:
                return self.connect(broker["host"], broker["port"])
        known = ", ".join(str(broker["node_id"]) for broker in brokers)
        raise CommandError(f"broker {node_id} does not exist; existing brokers: {known}")

    def leaders(self, topics: list[str] | None) -> dict[tuple[str, int], Connection]:
        """Returns the connection to the leader of each partition. If ``topics`` is None, requests
        every topic and omits topics with an error. Otherwise raises CommandError for unknown
        topics."""
        answer = self.metadata(topics)
        for topic in answer["topics"]:
            if topic["error_code"] and topics is not None:
                raise self.refused_topic(topic)
        return self.leaders_in(answer)

    def refused_topic(self, topic: Value) -> CommandError:
        """Returns the error for a topic that a Metadata response rejects. Its text suggests a
        similar existing name. To find this name, the method requests all topics."""
        name = topic["name"]
        there = {each["name"] for each in self.metadata(None)["topics"]}
        meant = None if name in there else nearest([name], there)
        return refused(f"topic {name}", topic["error_code"], meant=meant)

    def leaders_in(self, answer: Value) -> dict[tuple[str, int], Connection]:
        """Returns the connection to the leader of each partition in a Metadata response. Topics
        with an error are omitted."""
        addresses = {b["node_id"]: (b["host"], b["port"]) for b in answer["brokers"]}
        found: dict[tuple[str, int], Connection] = {}
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                if partition["leader_id"] in addresses:
                    leader = self.connect(*addresses[partition["leader_id"]])
                    found[topic["name"], partition["partition_index"]] = leader
        return found

    def coordinator(self, group_id: str) -> Connection:
        return self.coordinators([group_id])[group_id]

    def coordinators(self, names: Iterable[str], kind: int = OF_GROUPS) -> dict[str, Connection]:
        """Returns the connections to coordinators, by group id or transactional id. Waits while the
        topic of the coordinators is being created."""
        nodes = self._coordinator_nodes(list(dict.fromkeys(names)), kind)
        return {name: self.connect(node["host"], node["port"]) for name, node in nodes.items()}

    def coordinator_node(self, name: str, kind: int = OF_GROUPS) -> Value:
        """Returns the fields node_id, host and port of a coordinator."""
        return self._coordinator_nodes([name], kind)[name]

    def _coordinator_nodes(self, missing: Sequence[str], kind: int) -> dict[str, Value]:
        deadline_s = clock.monotonic_s() + self.timeout_s
        found: dict[str, Value] = {}
        while missing:
            later = []
            for name, answer in self._find(missing, kind):
                code = answer["error_code"]
                if code == errors.NONE:
                    found[name] = answer
                elif code in errors.RETRIABLE and clock.monotonic_s() <= deadline_s:
                    later.append(name)
                else:
                    raise refused(f"coordinator of {name}", code, answer["error_message"])
            missing = later
            if missing:
                clock.sleep(RETRY_S)
        return found

    def _find(self, names: Sequence[str], kind: int) -> Iterator[tuple[str, Value]]:
        """Yields each name with its coordinator. Kafka 3.0 and later get one request for all names,
        older brokers one request for each name."""
        if self.any.version_of("FindCoordinator") >= 4:
            for start in range(0, len(names), KEYS_AT_ONCE):
                keys = names[start : start + KEYS_AT_ONCE]
                asked = {"key_type": kind, "coordinator_keys": list(keys)}
                for answer in self.any.call("FindCoordinator", asked)["coordinators"]:
                    yield answer["key"], answer
        else:
            for name in names:
                yield name, self.any.call("FindCoordinator", {"key": name, "key_type": kind})

    def close(self) -> None:
        for connection in [*self._connections.values(), *chain(*self._more.values())]:
            connection.close()
