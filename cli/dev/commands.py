"""`muster dev cluster`: runs several brokers on this machine for a trial, in one process or with a
ZooKeeper."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli import clock, output
from cli.dev.processes import Running, ended_together
from cli.dev.reserved import LOCAL, reserved_directory, reserved_ports
from cli.dev.trial import (
    ASK_S,
    LOOK_S,
    START_S,
    addresses,
    run_in_one_process,
    show_pages,
    until_all_are_there,
    watch,
)
from cli.errors import USAGE, CommandError
from cli.options import whole_number

app = typer.Typer(help="Run a cluster on this machine for a trial.", no_args_is_help=True)


@app.callback()
def _dev() -> None:
    """Do nothing. Without this callback, typer would omit the name `cluster`, because it is the
    only subcommand."""


@app.command()
def cluster(
    brokers: Annotated[
        int, whole_number("--brokers", least=1, most=9, help="Number of brokers.")
    ] = 3,
    folder: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            help="The directory for the brokers' log files and, with a ZooKeeper, their data.",
        ),
    ] = Path("muster-dev"),
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The same as --dir; requires --zookeeper or --zookeeper-home."
        ),
    ] = None,
    port: Annotated[
        int,
        whole_number(
            "--port",
            least=1,
            most=65_000,
            help="The first port; brokers and pages use consecutive ports.",
        ),
    ] = 9092,
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT[/CHROOT]", help="Use this running ZooKeeper.")
    ] = "",
    zookeeper_home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Start the ZooKeeper of this directory (Apache ZooKeeper, or Kafka up to 3.9).",
        ),
    ] = None,
) -> None:
    """Run a cluster of brokers on this machine until Ctrl-C or SIGTERM.

    Without a ZooKeeper, all brokers run in one process, which keeps all data in memory.

    With --zookeeper or --zookeeper-home, each broker has its own process, and a restart with the
    same --dir or --data keeps topics and records.

    Three brokers and --port 9092 use ports 9092 to 9094 for clients, 9095 for ZooKeeper and 9096 to
    9098 for the brokers' pages.
    """
    ports = range(port, port + brokers)
    pages = range(ports.stop + 1, ports.stop + 1 + brokers)
    _check(zookeeper, zookeeper_home, data)
    if not zookeeper and zookeeper_home is None:
        run_in_one_process(folder, ports, pages)
    else:
        _run_with_zookeeper(data or folder, ports, pages, zookeeper, zookeeper_home)


def _check(zookeeper: str, zookeeper_home: Path | None, data: Path | None) -> None:
    """Raises CommandError for options that contradict each other."""
    if zookeeper and zookeeper_home is not None:
        raise CommandError(
            f"--zookeeper {zookeeper} uses a running ZooKeeper, --zookeeper-home {zookeeper_home}"
            " starts one: remove one of the two options",
            USAGE,
        )
    if data is not None and not zookeeper and zookeeper_home is None:
        raise CommandError(
            f"can't keep data in {data}: without a ZooKeeper the cluster keeps all data in"
            " memory. Add --zookeeper HOST:PORT or --zookeeper-home DIR"
        )


def _run_with_zookeeper(
    folder: Path, ports: range, pages: range, zookeeper: str, zookeeper_home: Path | None
) -> None:
    config = folder / "zookeeper.properties"
    command = [] if zookeeper_home is None else command_of(zookeeper_home, config)
    keeper: list[Running] = []
    started: list[Running] = []
    with (
        reserved_ports([*ports, *pages] if zookeeper else [*ports, ports.stop, *pages]),
        reserved_directory(folder),
        ended_together(keeper),
        ended_together(started),
    ):
        at = zookeeper
        if not at:
            at = f"{LOCAL}:{ports.stop}"
            keeper.append(_start_zookeeper(folder, command, config, ports.stop))
            _until_it_listens(keeper[0], ports.stop)
        for node, (each, page) in enumerate(zip(ports, pages, strict=True), 1):
            started.append(_start_broker(folder, node, each, page, at, len(ports)))
        bootstrap = addresses(ports)
        until_all_are_there(started, bootstrap, len(ports))
        _show_started(folder, bootstrap, at, pages, [*keeper, *started])
        watch([*keeper, *started])


def _start_zookeeper(folder: Path, command: list[str], config: Path, port: int) -> Running:
    write_config(config, folder / "zookeeper", port)
    logs = str((folder / "zookeeper-logs").absolute())
    own = {"LOG_DIR": logs, "ZOO_LOG_DIR": logs}
    return Running("ZooKeeper", command, folder / "zookeeper.log", own)


def _start_broker(
    folder: Path, node: int, port: int, page: int, zookeeper: str, brokers: int
) -> Running:
    copies, least = min(3, brokers), min(2, brokers)
    settings = {
        "broker.id": node,
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": 6000,
        "default.replication.factor": copies,
        "controlled.shutdown.enable": "false",  # all brokers stop together
        "min.insync.replicas": least,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": least,
    }
    command = [sys.executable, "-P", "-m", "musterd", "serve", "--http", f"{LOCAL}:{page}"]
    command += ["--listen", f"{LOCAL}:{port}", "--data", str(folder / f"broker-{node}")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return Running(f"broker {node}", command, folder / f"broker-{node}.log")


def _until_it_listens(zookeeper: Running, port: int) -> None:
    deadline = clock.Deadline(START_S)
    while True:
        zookeeper.check()
        try:
            socket.create_connection((LOCAL, port), ASK_S).close()
        except OSError as error:
            if deadline.left_s() <= 0:
                sentence = f"ZooKeeper did not start on port {port}; see {zookeeper.log}"
                raise CommandError(sentence) from error
            clock.sleep(LOOK_S)
        else:
            return


def _show_started(
    folder: Path, bootstrap: str, zookeeper: str, pages: range, running: list[Running]
) -> None:
    brokers = output.counted(len(pages), "broker")
    output.say(f"{brokers} at {bootstrap}, ZooKeeper at {zookeeper}")
    for each in running:
        output.say(f"    {each.name}: process {each.pid}, {each.log}")
    output.say(f"    $ export MUSTER_BOOTSTRAP={bootstrap}")
    output.say("    $ muster topics create orders -p 6")
    output.say("    $ muster cluster describe")
    show_pages(pages)
    output.say(f"Ctrl-C or SIGTERM stops the cluster; the data stays in {folder}")


_SCRIPTS: dict[str, list[str]] = {
    "zookeeper-server-start.sh": [],
    "zookeeper-server-start": [],
    "zkServer.sh": ["start-foreground"],
    "zkServer": ["start-foreground"],
}
"""The scripts that start ZooKeeper, each with the arguments that precede the configuration file."""


def command_of(home: Path, config: Path) -> list[str]:
    """Returns the command that runs ZooKeeper with the configuration file ``config``. The script is
    in ``home``."""
    path = os.pathsep.join([str(home / "bin"), str(home)])
    for script, words in _SCRIPTS.items():
        found = shutil.which(script, path=path)
        if found is not None:
            return [str(Path(found).absolute()), *words, str(config.absolute())]
    raise CommandError(
        "ZooKeeper (zookeeper-server-start.sh or zkServer.sh) was not found in"
        f" {home} or {home / 'bin'}. Choose a"
        " running ZooKeeper with --zookeeper HOST:PORT, or a directory with --zookeeper-home DIR."
        " ZooKeeper needs Java and is part of Apache ZooKeeper (zookeeper.apache.org) and of Apache"
        " Kafka up to 3.9"
    )


def write_config(config: Path, data: Path, port: int) -> None:
    """Writes the configuration of a ZooKeeper that accepts connections only from this machine."""
    config.write_text(
        f"dataDir={data.absolute()}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
