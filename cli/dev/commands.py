"""`muster dev cluster`: ZooKeeper and some brokers on this machine, for a trial."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli import clock, output
from cli.client.cluster import Cluster
from cli.dev.processes import Running, ended_together
from cli.errors import CommandError
from cli.options import whole_number

app = typer.Typer(help="Run a cluster on this machine for a trial.", no_args_is_help=True)

_LOOK_S = 0.2
_START_S = 90.0
_ASK_S = 5.0
_LOCAL = "127.0.0.1"


@app.callback()
def _dev() -> None:
    """Keep `cluster` a subcommand as long as `cluster` is the only subcommand."""


@app.command()
def cluster(
    brokers: Annotated[
        int, whole_number("--brokers", least=1, most=9, help="Number of brokers.")
    ] = 3,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="The directory of all data and logs.")
    ] = Path("muster-dev"),
    port: Annotated[
        int,
        whole_number(
            "--port",
            least=1,
            most=65_000,
            help="The first port; brokers, ZooKeeper and pages use consecutive ports.",
        ),
    ] = 9092,
    zookeeper: Annotated[
        str, typer.Option(metavar="HOST:PORT[/CHROOT]", help="Use this running ZooKeeper.")
    ] = "",
    zookeeper_home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A directory with Apache ZooKeeper, or with Apache Kafka up to 3.9."
        ),
    ] = None,
) -> None:
    """Run ZooKeeper and brokers on this machine until Ctrl-C or SIGTERM.

    Three brokers and --port 9092 use ports 9092 to 9094 for clients, 9095 for ZooKeeper and 9096 to
    9098 for the brokers' pages.

    A restart with the same --dir keeps topics and records.
    """
    ports = range(port, port + brokers)
    pages = range(ports.stop + 1, ports.stop + 1 + brokers)
    taken = [*ports, *pages] if zookeeper else [*ports, ports.stop, *pages]
    for each in taken:
        _must_be_free(each, taken)
    config = folder / "zookeeper.properties"
    command = [] if zookeeper else command_of(zookeeper_home, config)
    folder.mkdir(parents=True, exist_ok=True)
    keeper: list[Running] = []
    started: list[Running] = []
    with ended_together(keeper), ended_together(started):
        at = zookeeper
        if not at:
            at = f"{_LOCAL}:{ports.stop}"
            keeper.append(_start_zookeeper(folder, command, config, ports.stop))
            _until_it_listens(keeper[0], ports.stop)
        for node, (each, page) in enumerate(zip(ports, pages, strict=True), 1):
            started.append(_start_broker(folder, node, each, page, at, brokers))
        bootstrap = ",".join(f"{_LOCAL}:{each}" for each in ports)
        _until_all_are_there(started, bootstrap)
        _show_started(folder, bootstrap, at, pages, [*keeper, *started])
        _watch([*keeper, *started])


def _must_be_free(port: int, taken: Sequence[int]) -> None:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((_LOCAL, port))
    except OSError as error:
        sentence = (
            f"can't use port {port}: {error.strerror}; the cluster needs ports {taken[0]} to"
            f" {taken[-1]}: choose the first port with --port"
        )
        raise CommandError(sentence) from error


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
    command = [sys.executable, "-P", "-m", "musterd", "serve", "--http", f"{_LOCAL}:{page}"]
    command += ["--listen", f"{_LOCAL}:{port}", "--data", str(folder / f"broker-{node}")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return Running(f"broker {node}", command, folder / f"broker-{node}.log")


def _until_it_listens(zookeeper: Running, port: int) -> None:
    deadline = clock.Deadline(_START_S)
    while True:
        zookeeper.check()
        try:
            socket.create_connection((_LOCAL, port), _ASK_S).close()
        except OSError as error:
            if deadline.left_s() <= 0:
                sentence = f"ZooKeeper did not start on port {port}; see {zookeeper.log}"
                raise CommandError(sentence) from error
            clock.sleep(_LOOK_S)
        else:
            return


def _until_all_are_there(started: list[Running], bootstrap: str) -> None:
    deadline = clock.Deadline(_START_S)
    while True:
        for each in started:
            each.check()
        if _known(bootstrap) == len(started):
            return
        if deadline.left_s() <= 0:
            raise CommandError(f"the brokers did not form a cluster; see {started[0].log}")
        clock.sleep(_LOOK_S)


def _known(bootstrap: str) -> int:
    """Return the number of brokers in the cluster; 0 while the cluster has no controller."""
    try:
        reached = Cluster(bootstrap, timeout_s=_ASK_S)
        answer = reached.metadata([])
        reached.close()
    except CommandError:
        return 0
    return len(answer["brokers"]) if answer["controller_id"] >= 0 else 0


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
    last = f"the page of broker {len(pages)} is http://{_LOCAL}:{pages[-1]}"
    more = f", {last}" if len(pages) > 1 else ""
    output.say(f"the page of broker 1 is http://{_LOCAL}:{pages.start}{more}")
    output.say(f"Ctrl-C or SIGTERM stops the cluster; the data stays in {folder}")


def _watch(running: list[Running]) -> None:
    """Warn of each process that exits, such as a broker that the user kills for a test."""
    there = list(running)
    while there:
        for each in [each for each in there if each.code is not None]:
            there.remove(each)
            output.warn(f"{each.name} exited with {each.code}; see {each.log}")
        clock.sleep(_LOOK_S)
    raise CommandError("all processes have exited")


_SCRIPTS: dict[str, list[str]] = {
    "zookeeper-server-start.sh": [],
    "zookeeper-server-start": [],
    "zkServer.sh": ["start-foreground"],
    "zkServer": ["start-foreground"],
}
"""The start scripts of ZooKeeper, each with its arguments before the configuration file."""


def command_of(home: Path | None, config: Path) -> list[str]:
    """Return the command that runs ZooKeeper with ``config``; its script is in ``home`` or PATH."""
    path = None if home is None else os.pathsep.join([str(home / "bin"), str(home)])
    for script, words in _SCRIPTS.items():
        found = shutil.which(script, path=path)
        if found is not None:
            return [str(Path(found).absolute()), *words, str(config.absolute())]
    where = "on PATH" if home is None else f"in {home} or {home / 'bin'}"
    raise CommandError(
        f"ZooKeeper (zookeeper-server-start.sh or zkServer.sh) was not found {where}. Choose a"
        " running ZooKeeper with --zookeeper HOST:PORT, or a directory with --zookeeper-home DIR."
        " ZooKeeper needs Java and is part of Apache ZooKeeper (zookeeper.apache.org) and of Apache"
        " Kafka up to 3.9"
    )


def write_config(config: Path, data: Path, port: int) -> None:
    """Write the configuration of a ZooKeeper that only this machine can reach."""
    config.write_text(
        f"dataDir={data.absolute()}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\nmaxClientCnxns=0\n"
    )
