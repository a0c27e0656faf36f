"""Starts a ZooKeeper from the jars of the last Kafka release that contains ZooKeeper."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import java, waiting
from tests.brokers import free_port

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def start_zookeeper(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a ZooKeeper with its files in ``folder``. Returns the process and the port, possibly
    before ZooKeeper accepts connections."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "zookeeper.properties"
    config.write_text(
        f"dataDir={folder / 'zookeeper'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
    process = subprocess.Popen(
        java.command(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, MAIN, str(config)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return process, port


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Yields the address of a ZooKeeper that accepts connections. Kills the ZooKeeper at the
    end."""
    with zookeeper_process(folder) as (address, _):
        yield address


@contextmanager
def zookeeper_process(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yields the address and the process of a ZooKeeper that accepts connections."""
    process, port = start_zookeeper(folder)
    try:
        waiting.until("ZooKeeper answers", lambda: _answers(port), 180, OSError)
        yield f"127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5) as probe:
        probe.sendall(b"srvr")
        return b"Zookeeper version" in probe.recv(4096)
