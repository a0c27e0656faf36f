"""A ZooKeeper that is installed on this machine, and how to start it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cli.errors import CommandError

_SCRIPTS: dict[str, list[str]] = {
    "zookeeper-server-start.sh": [],
    "zookeeper-server-start": [],
    "zkServer.sh": ["start-foreground"],
    "zkServer": ["start-foreground"],
}
"""The scripts of Apache Kafka and Apache ZooKeeper -> what they take before the file."""


def command_of(home: Path | None, config: Path) -> list[str]:
    """The command that runs the ZooKeeper of a folder, or of PATH, with a configuration."""
    path = None if home is None else os.pathsep.join([str(home / "bin"), str(home)])
    for script, words in _SCRIPTS.items():
        found = shutil.which(script, path=path)
        if found is not None:
            return [str(Path(found).absolute()), *words, str(config.absolute())]
    where = "on PATH" if home is None else f"in {home} or its bin"
    raise CommandError(
        f"there is no ZooKeeper {where}: neither zookeeper-server-start.sh nor zkServer.sh; name"
        " one that runs with --zookeeper HOST:PORT, or a folder with --zookeeper-home DIR: Apache"
        " ZooKeeper (zookeeper.apache.org) and Apache Kafka up to 3.9 have it, and it needs Java"
    )


def write_config(config: Path, data: Path, port: int) -> None:
    """Write the configuration of one that serves this machine alone."""
    config.write_text(
        f"dataDir={data.absolute()}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
