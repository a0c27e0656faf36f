"""`MusterCluster`: several brokers in one process, for the length of a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from musterd.testing.errors import BrokerDied, MusterError
from musterd.testing.faults import Fault, FaultVerbs
from musterd.testing.happened import SeenVerbs
from musterd.testing.http import Http
from musterd.testing.lasting import Lasting
from musterd.testing.served import Json, Served
from musterd.testing.views import Partition, PartitionEvent, SeenRequest
from musterd.testing.waiting import WaitingForPartition


class MusterCluster(Served):
    """A cluster of Kafka brokers on free ports of this machine.

    The brokers have the ids 1 to `brokers`. They are in one process, keep their data in memory, and
    have one clock, `cluster.time`. A registry in the same process has the place of ZooKeeper.

    Topics have three replicas and `min.insync.replicas=2`, unless `settings`, which are Kafka's
    broker properties, or the topic say otherwise. `port` and `http_port` are the first of
    consecutive ports, or 0 to choose free ports.

    >>> with MusterCluster() as cluster:
    ...     cluster.create_topic("orders")
    ...     first = cluster.leader("orders")
    ...     with cluster.kill(first):
    ...         cluster.leader("orders") != first
    ...     sorted(cluster.wait_for_partition("orders").in_sync().isr)
    True
    [1, 2, 3]

    The process ends with the `with` block, with `close`, or with the test's process.
    """

    _USE = "with MusterCluster() as cluster:"

    def __init__(
        self, brokers: int = 3, *, settings: Mapping[str, object] | None = None, port: int = 0,
        http_port: int = 0, start_timeout_s: float = 30.0,
    ) -> None:  # fmt: skip
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        super().__init__(settings, (port, http_port), start_timeout_s)
        self._size = brokers
        self._brokers: dict[int, ClusterBroker] = {}

    # The brokers

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers for clients, HOST:PORT,HOST:PORT. They stay the same until
        `close`."""
        return super().bootstrap_servers

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers, including stopped brokers."""
        return list(self._brokers)

    @property
    def running(self) -> list[int]:
        """The ids of the running brokers."""
        found = self._ask("GET", "/test/cluster")["brokers"]
        return [each["broker"] for each in found if each["is_running"]]

    @property
    def controller(self) -> int | None:
        """The id of the broker that is the controller; None while the cluster has no controller."""
        response = self._ask("GET", "/test/cluster")["controller"]
        return None if response is None else int(response)

    def broker(self, broker: int) -> ClusterBroker:
        """Return one broker: its addresses, and faults that affect only this broker."""
        if broker not in self._brokers:
            there = ", ".join(map(str, self._brokers)) or "none, since the cluster is not started"
            raise MusterError(f"broker {broker} does not exist; the brokers are {there}")
        return self._brokers[broker]

    # Life cycle

    def start(self) -> None:
        """Start all brokers. Return when they accept connections and know each other."""
        self._ready = None
        self._launch([f"--brokers={self._size}"])
        self._brokers = {
            each["broker"]: ClusterBroker(self, each) for each in self._started().brokers
        }

    def kill(self, broker: int, *, expire: bool = True) -> Down:
        """Kill a broker as SIGKILL does, until the end of the `with` block or until `restart`.

        The partitions of the broker have new leaders when this call returns. With `expire=False`
        the broker's session in the registry is not ended. As in production, the session lasts until
        its timeout of 6 s has passed on the cluster's clock: `cluster.time.advance(seconds=6)`.
        """
        self._ask("POST", "/test/kill", broker=broker, expire=expire)
        return Down(self, broker)

    def stop(self, broker: int) -> Down:
        """Stop a broker as SIGTERM does, until the end of the `with` block or until `restart`. The
        broker first moves its leaderships to other brokers."""
        self._ask("POST", "/test/stop", broker=broker)
        return Down(self, broker)

    def restart(self, broker: int) -> None:
        """Stop a broker if it runs, and start it with the same addresses and data."""
        if broker in self.running:
            self.stop(broker)
        self._ask("POST", "/test/start", broker=broker)

    def isolate(
        self, broker: int,
        from_: str | int | Iterable[str | int] = ("clients", "brokers", "registry"),
    ) -> Cut:  # fmt: skip
        """Cut the links of a broker, until `end` or the end of the `with` block.

        `from_` names what the broker is cut from: `"clients"`, `"brokers"`, `"registry"`, the id of
        another broker, or a list of these. Connections are closed, and requests get no response
        until the links are restored. A broker without the registry loses its session when 6 s of
        the cluster's clock have passed; until then no other broker replaces it.
        """
        listed = [from_] if isinstance(from_, str | int) else from_
        sides = [str(each) for each in listed]
        response = self._ask("POST", "/test/isolate", **{"broker": broker, "from": sides})
        return Cut(self, "isolate", response["id"])

    def pause(self, broker: int) -> Cut:
        """Suspend a broker as SIGSTOP does, until `end` or the end of the `with` block.

        Its connections stay open, and its requests get no response. Its deadlines do not pass. Its
        session in the registry expires when 6 s of the cluster's clock have passed; the broker
        notices this when it continues.
        """
        return Cut(self, "pause", self._ask("POST", "/test/pause", broker=broker)["id"])

    def rolling_restart(self) -> None:
        """Restart all brokers, one after the other, as an operator does. Each restart waits until
        the previous broker is in all ISRs again."""
        for broker in self.brokers:
            self.restart(broker)
            for each in self.partitions():
                if broker in each.replicas:
                    self.wait_for_partition(each.topic, each.partition).in_sync()

    def reset(self) -> None:
        """Empty all brokers within milliseconds. The brokers keep their addresses.

        Start brokers that are stopped, delete topics, groups and journals, end all faults, and set
        the clock to the system's time. If the cluster's process has died, start a new process, at
        other addresses.
        """
        self.time._end_following()
        if self._is_there():
            with suppress(BrokerDied):
                self._tell("POST", "/test/reset")
                return
        self.start()

    def close(self) -> None:
        """End the cluster's process. The data is lost."""
        for each in self._brokers.values():
            each._http.close()
        super().close()
        self._brokers = {}

    # Partitions

    def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Elect another in-sync replica as leader, by default the next replica, and return its id.
        The new leader becomes the preferred leader, the first of the replicas."""
        asked = {"topic": topic, "partition": partition, "to": to}
        return int(self._ask("POST", "/test/move_leader", **asked)["leader"])

    def move_coordinator(
        self, group: str | None = None, *, transactional_id: str | None = None,
        to: int | None = None,
    ) -> int:  # fmt: skip
        """Move the coordinator of a group or of a transactional id to another broker, and return
        its id.

        The leader of a partition of `__consumer_offsets` or `__transaction_state` is moved. The
        coordinator of all groups or transactional ids of this partition moves with it.
        """
        asked = {"group": group, "transactional_id": transactional_id}
        response = self._ask("GET", "/test/coordinator", **asked)
        if response["coordinator"] is None:
            raise MusterError("no coordinator exists yet: first use the group or transactional id")
        return self.move_leader(response["topic"], response["partition"], to=to)

    def shrink_isr(self, topic: str, partition: int = 0, *brokers: int) -> Cut:
        """Remove followers from the ISR, by default all followers. They rejoin the ISR after `end`
        or after the `with` block.

        Until then, the leader does not answer their fetches, so that they lag like slow followers.
        This affects all partitions that these followers fetch from this leader.
        """
        response = self._ask(
            "POST", "/test/shrink_isr", topic=topic, partition=partition,
            brokers=[str(each) for each in brokers],
        )  # fmt: skip
        return Cut(self, "shrink_isr", response["id"])

    def elect_unclean(self, topic: str, partition: int = 0) -> int:
        """Elect a live out-of-sync replica as leader, when all in-sync replicas are down. Return
        the broker id of the new leader.

        Records that this replica does not have are lost, as with `kafka-leader-election.sh
        --election-type unclean`.
        """
        response = self._ask("POST", "/test/elect_unclean", topic=topic, partition=partition)
        return int(response["leader"])

    def why(self, topic: str, partition: int = 0) -> list[PartitionEvent]:
        """The reasons for changes of a partition's leader and ISR, oldest first, as `muster cluster
        why` shows them."""
        response = self._ask("GET", "/test/why", topic=topic, partition=partition)["events"]
        return [PartitionEvent.of(each) for each in response]

    def partitions(self, topic: str | None = None) -> list[Partition]:
        """The partitions of a topic, or of all topics."""
        response = self._ask("GET", "/test/partitions", topic=topic)
        return [Partition.of(each) for each in response["partitions"]]

    def partition(self, topic: str, partition: int = 0, *, settled: bool = False) -> Partition:
        """The state of a partition according to the registry. With `settled`, raise MusterError
        unless all brokers know this state."""
        response = self._ask("GET", "/test/partitions", topic=topic, partition=partition)
        if not response["partitions"]:
            raise MusterError(f"{topic}-{partition} does not exist")
        found = Partition.of(response["partitions"][0])
        if settled and not response["is_settled"]:
            raise MusterError(f"{found}, but not every broker knows this yet")
        return found

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition. Raise MusterError if the partition has no
        leader, for example because all brokers are killed.

        A broker that was killed with `expire=False` leads its partitions until its session in the
        registry has expired.
        """
        found = self.partition(topic, partition)
        if found.leader is None:
            running = ", ".join(map(str, self.running)) or "none"
            raise MusterError(f"{found}; running brokers: {running}")
        return found.leader

    def coordinator(
        self, group: str | None = None, *, transactional_id: str | None = None
    ) -> int | None:
        """The id of the broker that coordinates a group or a transactional id. Raise MusterError if
        this broker is down.

        None before the first client uses a group or a transactional id: only then does Kafka create
        `__consumer_offsets` or `__transaction_state`, whose leaders are the coordinators. The first
        `kill`, `stop`, `isolate` or `pause` also creates both topics.
        """
        asked = {"group": group, "transactional_id": transactional_id}
        response = self._ask("GET", "/test/coordinator", **asked)["coordinator"]
        return None if response is None else int(response)

    def requests(
        self, *, client_id: str | None = None, api: str | None = None
    ) -> list[SeenRequest]:
        """The requests that all brokers received, in order of time; see `Muster.requests`.

        `cluster.broker(1).requests()` returns the requests of one broker. Requests from broker to
        broker are included.
        """
        found = [
            request
            for each in self._brokers.values()
            for request in each.requests(client_id=client_id, api=api)
        ]
        return sorted(found, key=lambda each: each.at_ms)

    def wait_for_partition(
        self, topic: str, partition: int = 0, timeout_s: float = 10.0
    ) -> WaitingForPartition:
        """Wait for a condition of a partition: `cluster.wait_for_partition("orders").leader(2)`.

        Raises `WaitedInVain` with the partition's state after `timeout_s` seconds of real time.
        """
        return WaitingForPartition(self, topic, partition, timeout_s)


class ClusterBroker(FaultVerbs, SeenVerbs):
    """One broker of a cluster: its addresses, its requests, and the faults that affect only its
    clients."""

    def __init__(self, cluster: MusterCluster, response: Mapping[str, Any]) -> None:
        self.id: int = response["broker"]
        """The broker's id."""
        self.bootstrap_servers: str = response["bootstrap_servers"]
        """The broker's address for clients, HOST:PORT."""
        self.http: str = response["http"]
        """The URL of the broker's web page."""
        self._cluster = cluster
        self._http = Http(self.http)

    def _ask(self, method: str, path: str, **arguments: object) -> Json:
        self._cluster.time._keep_up()
        return self._http.ask(method, path, arguments)

    def _is_there(self) -> bool:
        return self._cluster._is_there()

    def __repr__(self) -> str:
        return f"<broker {self.id} {self.bootstrap_servers}>"


class Cut(Fault):
    """A fault of a cluster: an isolated or paused broker, or followers that do not fetch.

    `end` returns when all brokers know the state of the cluster again.
    """

    _PATH = "/test/cluster/faults"


class Down(Lasting):
    """A broker that was killed or stopped. It is down until `end`, or until the end of the `with`
    block."""

    def __init__(self, cluster: MusterCluster, broker: int) -> None:
        self.broker = broker
        """The broker's id."""
        self._cluster = cluster

    def end(self) -> None:
        """Start the broker again. Do nothing if it runs."""
        if self._cluster._is_there():
            self._cluster._ask("POST", "/test/start", broker=self.broker)
