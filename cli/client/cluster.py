"""Connections of commands to the brokers, leaders and coordinators of a cluster (Kafka 0.10+)."""

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
"""The maximum number of keys in one FindCoordinator."""
OF_GROUPS, OF_TRANSACTIONS = 0, 1
"""Kinds of coordinators: of groups, or of transactional ids."""


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of `HOST:PORT`, `[IPV6]:PORT` or `HOST` alone, which means port 9092."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text.strip(), "9092"
    host = host.strip("[]")
    if not host or not is_port(port):
        sentence = f"--bootstrap {text:.100}: write it as HOST:PORT, such as 127.0.0.1:9092"
        raise CommandError(sentence, USAGE)
    return host, int(port)


def is_port(text: str) -> bool:
    """Return True if a text is a port; checked before ``int``, which raises for ``²`` and 5,000
    digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536


class Connection(client.connection.Connection):
    """One blocking connection to one broker, with one request in flight.

    All its errors are CommandErrors.
    """

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
        """Return another connection to the same broker."""
        return Connection(self.host, self.port, self.client_id, self.timeout_s, self.security)

    def version_of(self, name: str) -> int:
        """Return the newest common version of an API; raise CommandError if no version is
        common."""
        with command_errors():
            return super().version_of(name)

    def call(
        self, name: str, value: Value, timeout_s: float | None = None, version: int | None = None
    ) -> Value:
        """Send one request and return the decoded response; by default in the newest version."""
        with command_errors():
            return super().call(name, value, timeout_s, version)


@contextmanager
def command_errors() -> Iterator[None]:
    """Convert a connection's errors to CommandErrors."""
    try:
        yield
    except Unreachable as error:
        raise CommandError(str(error), UNREACHABLE) from error
    except NotAskable as error:
        raise CommandError(str(error), USAGE) from error
    except ClientError as error:
        raise CommandError(str(error)) from error


class Cluster:
    """The cluster at a bootstrap address, with a connection to each broker in use."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str = "muster-cli",
        timeout_s: float = 30,
        security: Security | None = None,
    ) -> None:
        """``security`` defaults to the settings in the file of --command-config."""
        self.client_id = client_id
        self.security = chosen() if security is None else security
        self.timeout_s = timeout_s
        self.deadline = clock.Deadline(timeout_s)
        """The deadline of the first response, ``timeout_s`` after the creation of this object."""
        self._bootstrap = bootstrap
        self._connections: dict[tuple[str, int], Connection] = {}
        self._more: dict[Connection, list[Connection]] = {}
        """Additional connections to a connection's broker, for parallel requests."""
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
        """Close every connection and connect again, to abandon calls that are still in flight."""
        self.close()
        self._connections.clear()
        self._more.clear()
        self.any = self._connect_any()

    def connect(self, host: str, port: int) -> Connection:
        """Return the connection to a broker of the cluster; connect at first use."""
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
        """Return ``connection`` and more connections to the same broker, ``number`` in total."""
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
        """Return the response to Metadata; None requests every topic. No topic is created.

        ``broker`` receives the request, by default any broker.
        """
        connection = broker or self.any
        asked = None if topics is None else [{"topic_id": bytes(16), "name": t} for t in topics]
        if topics is None and connection.version_of("Metadata") == 0:
            asked = []
        asks = {"topics": asked, "allow_auto_topic_creation": False}
        return connection.call("Metadata", asks, timeout_s)

    def controller(self) -> Connection:
        """Return the connection to the controller, or to any broker if the cluster has no
        controller."""
        answer = self.metadata([])
        for broker in answer["brokers"]:
            if broker["node_id"] == answer["controller_id"]:
                return self.connect(broker["host"], broker["port"])
        return self.any

    def brokers(self) -> Iterator[Connection]:
        """Yield a connection to each broker."""
        for broker in self.metadata([])["brokers"]:
            yield self.connect(broker["host"], broker["port"])

    def broker(self, node_id: int) -> Connection:
        """Return the connection to the broker with this id; raise CommandError if the broker does
        not exist."""
        brokers = self.metadata([])["brokers"]
        for broker in brokers:
            if broker["node_id"] == node_id:
                return self.connect(broker["host"], broker["port"])
        known = ", ".join(str(broker["node_id"]) for broker in brokers)
        raise CommandError(f"broker {node_id} does not exist; existing brokers: {known}")

    def leaders(self, topics: list[str] | None) -> dict[tuple[str, int], Connection]:
        """Return the leaders by (topic, partition); raise CommandError for unknown topics.

        None requests every topic; topics with an error are then omitted.
        """
        answer = self.metadata(topics)
        for topic in answer["topics"]:
            if topic["error_code"] and topics is not None:
                raise self.refused_topic(topic)
        return self.leaders_in(answer)

    def refused_topic(self, topic: Value) -> CommandError:
        """Return the error for a topic in a Metadata response, with a similar existing name.

        The method requests all topics to find the name.
        """
        name = topic["name"]
        there = {each["name"] for each in self.metadata(None)["topics"]}
        meant = None if name in there else nearest([name], there)
        return refused(f"topic {name}", topic["error_code"], meant=meant)

    def leaders_in(self, answer: Value) -> dict[tuple[str, int], Connection]:
        """Return the leaders in a Metadata response; topics with an error are omitted."""
        addresses = {b["node_id"]: (b["host"], b["port"]) for b in answer["brokers"]}
        found: dict[tuple[str, int], Connection] = {}
        for topic in answer["topics"]:
            for partition in topic["partitions"]:
                if partition["leader_id"] in addresses:
                    leader = self.connect(*addresses[partition["leader_id"]])
                    found[topic["name"], partition["partition_index"]] = leader
        return found

    def coordinator(self, group_id: str) -> Connection:
        """Return the connection to a group's coordinator; see `coordinators`."""
        return self.coordinators([group_id])[group_id]

    def coordinators(self, names: Iterable[str], kind: int = OF_GROUPS) -> dict[str, Connection]:
        """Return the connections to coordinators by group or transactional id.

        Wait while the coordinators' topic is being created.
        """
        nodes = self._coordinator_nodes(list(dict.fromkeys(names)), kind)
        return {name: self.connect(node["host"], node["port"]) for name, node in nodes.items()}

    def coordinator_node(self, name: str, kind: int = OF_GROUPS) -> Value:
        """Return node_id, host and port of a coordinator."""
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
        """Find coordinators: with one request for all names since Kafka 3.0, with one request per
        name before."""
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
        """Close every connection."""
        for connection in [*self._connections.values(), *chain(*self._more.values())]:
            connection.close()
