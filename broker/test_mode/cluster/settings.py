"""The settings of `muster serve --test --brokers N`: the defaults of a cluster, and the settings of
each of its brokers."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.config import Config, WrongUse
from broker.config.config_table import Value
from broker.config.listeners import Endpoint, parse_host_and_port
from broker.test_mode.settings import DEFAULTS

BROKERS_MAX = 9
INTERNAL = "INTERNAL"
"""The name of the listener for connections between brokers. Clients have another listener, so that
a test can delay the requests of clients without delaying the brokers."""
REGISTRY = "registry:2181"
"""The value of ``zookeeper.connect``. No broker connects to this address: the value only makes the
broker join a cluster, whose registry is in the same process."""


def cluster_defaults(brokers: int) -> Mapping[str, Value]:
    """Returns the default settings of a cluster; every other source of settings overrides them."""
    copies, least = min(3, brokers), min(2, brokers)
    return {
        **DEFAULTS,
        "default.replication.factor": copies,
        "min.insync.replicas": least,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": least,
        "zookeeper.session.timeout.ms": 6000,
        "replica.fetch.backoff.ms": 20,
        # A follower fetches from a new leader when its present fetch from that broker has ended.
        "replica.fetch.wait.max.ms": 100,
        # A stopping broker sends ControlledShutdown three times. If the controller is isolated,
        # its session has expired before the third request, so that another broker answers.
        "controller.socket.timeout.ms": 3200,
        "controlled.shutdown.retry.backoff.ms": 50,
        "auto.leader.rebalance.enable": False,  # only the test moves leaders
    }


def check(config: Config, data: str | None) -> None:
    """Raises WrongUse, with one sentence as its message, for settings and options that a test
    cluster does not support."""
    if data is not None:
        raise WrongUse(
            "--brokers can't be combined with --data: the registry of a cluster for tests keeps"
            " nothing on disk; a cluster that keeps its data needs a ZooKeeper: muster dev cluster"
            " --zookeeper HOST:PORT"
        )
    if len(config.listeners) > 1:
        raise WrongUse(
            "--brokers: set only one listener; each broker adds a second listener for the other"
            " brokers"
        )
    for name in ("broker.id", "inter.broker.listener.name", "security.inter.broker.protocol"):
        if config.is_given(name):
            raise WrongUse(f"--brokers sets {name} for each broker; remove this setting")


def of_broker(config: Config, broker_id: int) -> Config:
    """Returns the settings of one broker of a cluster. Broker 1 has the configured ports. Each
    further broker has ports that are higher by 1, except for port 0, which stays 0."""
    [clients] = config.listeners
    host = clients.host
    inside = Endpoint("", host, 0).address
    protocols = {each: each for each in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    protocols |= {clients.name: clients.protocol, INTERNAL: "PLAINTEXT"}
    http_host, http_port = parse_host_and_port(config["http.listener"])
    return Config(
        {
            **config.given,
            "broker.id": str(broker_id),
            "zookeeper.connect": REGISTRY,
            "listeners": f"{clients.name}://{_nth(host, clients.port, broker_id)},"
            f"{INTERNAL}://{inside}",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "inter.broker.listener.name": INTERNAL,
            "http.listener": _nth(http_host, http_port, broker_id),
        }
    )


def _nth(host: str, port: int, broker_id: int) -> str:
    """Returns the address of a broker. Broker 1 has the port ``port``, the next broker the next
    port."""
    return Endpoint("", host, port + broker_id - 1 if port else 0).address
