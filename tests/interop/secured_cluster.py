"""A secured cluster: SASL_SSL listeners, SCRAM between brokers, and ACLs in ZooKeeper."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from client.connection import Connection
from client.security import Login, Security, Tls
from protocol.znodes.configs import encode_config
from security.credentials import BY_NAME, credential, credential_text
from security.sasl.client_side import Credentials
from tests import java
from tests.certificates import Authority
from tests.interop.zookeeper_cluster import ZooKeeperCluster
from tests.zookeeper import zookeeper_process

BROKER, PASSWORD = "broker", "of brokers"
MECHANISM = "SCRAM-SHA-512"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ITERATIONS = 4096


def write_user(zookeeper: str, user: str, mechanism: str, password: str) -> None:
    """Adds a SCRAM user in ZooKeeper before the first broker runs, as kafka-configs --zookeeper
    did."""
    scram, salt = BY_NAME[mechanism], b"salt of brokers"
    salted = scram.salted_password(password.encode(), salt, ITERATIONS)
    text = credential_text(credential(scram, salted, salt, ITERATIONS))
    at, _, chroot = zookeeper.partition("/")
    nodes = KazooClient(at, timeout=30)
    nodes.start(30)
    path = f"/{chroot}/config/users/{user}"
    nodes.create(path, encode_config({mechanism: text}), makepath=True)
    nodes.stop()
    nodes.close()


class SecuredCluster(ZooKeeperCluster):
    """A cluster in which brokers and tests log in as the super user `BROKER`."""

    def __init__(
        self, folder: Path, zookeeper_at: str, kinds: Mapping[int, str], **settings: str
    ) -> None:
        self.authority = Authority(folder)
        self._own = {broker: self.authority.issue(f"broker-{broker}") for broker in kinds}
        super().__init__(folder, zookeeper_at, kinds, settings)
        self.whole_s = time.monotonic()
        """The time of the monotonic clock at which all brokers were registered."""

    def client(self, user: str = BROKER, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority.certificate),
            "log_level": 0,
            **more,
        }

    def logged_in(self, broker: int, who: Credentials) -> Connection:
        security = Security(Tls(self.authority.certificate.read_text()), Login(MECHANISM, who))
        return Connection("127.0.0.1", self.ports[broker], "test", 20.0, security=security)

    def at(self, broker: int) -> dict[str, str]:
        return {"bootstrap.servers": f"127.0.0.1:{self.ports[broker]}"}

    def admin(self) -> AdminClient:
        return AdminClient(self.client())

    def _known_to(self, broker: int, topic: str) -> int:
        with closing(self.logged_in(broker, Credentials(BROKER, PASSWORD))) as connection:
            known = connection.call("Metadata", {"topics": None}, version=4)["topics"]
        return sum(len(each["partitions"]) for each in known if each["name"] == topic)

    def _muster(self, broker: int) -> list[str]:
        file = self._file(broker)
        command = [sys.executable, "-m", "cli.main", "serve", "--http", self.http[broker]]
        return [*command, "--config", str(file)]

    def _kafka(self, broker: int) -> list[str]:
        file = self._file(broker)
        return java.command(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, "kafka.Kafka", str(file))

    def _file(self, broker: int) -> Path:
        """Writes the properties file of a broker, which Muster and Kafka can both read. Returns its
        path."""
        jaas = f'{SCRAM_MODULE} required username="{BROKER}" password="{PASSWORD}";'
        address = f"INSIDE://127.0.0.1:{self.ports[broker]}"
        properties = {
            **self._properties(broker),
            "listeners": address,
            "advertised.listeners": address,
            "listener.security.protocol.map": "INSIDE:SASL_SSL",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.inside.{MECHANISM.lower()}.sasl.jaas.config": jaas,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._own[broker].pem),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER}",
            "log.dirs": str(self.directory(broker)),
        }
        file = self.folder / f"broker-{broker}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file


@contextmanager
def running_secured(
    folder: Path, kinds: Mapping[int, str], **settings: str
) -> Iterator[SecuredCluster]:
    """Starts a secured cluster and yields it when all brokers run. The first broker is the
    controller. Stops the cluster at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with zookeeper_process(folder / "zookeeper") as (address, _):
        cluster = SecuredCluster(folder, address, kinds, **settings)
        first, *others = kinds
        try:
            write_user(cluster.zookeeper, BROKER, MECHANISM, PASSWORD)
            cluster.start(first)
            cluster.nodes.start(30)
            cluster.until_brokers({first})
            for broker in others:
                cluster.start(broker)
            cluster.until_brokers(set(kinds))
            yield cluster
        except BaseException:
            print(cluster.told())
            raise
        finally:
            cluster.nodes.stop()
            cluster.nodes.close()
            for process in cluster.processes.values():
                process.kill()
            for process in cluster.processes.values():
                process.wait()
