"""A cluster for a trial: the wait for its start, and the cluster in one process."""

from __future__ import annotations

import sys
from pathlib import Path

from cli import clock, output
from cli.client.cluster import Cluster
from cli.dev.processes import Running, ended_together
from cli.dev.reserved import LOCAL, reserved_ports
from cli.errors import CommandError

LOOK_S = 0.2
START_S = 90.0
ASK_S = 5.0


def run_in_one_process(folder: Path, ports: range, pages: range) -> None:
    """Runs brokers and their registry in one process until the command is stopped."""
    with reserved_ports([*ports, *pages]):
        _run_in_one_process(folder, ports, pages)


def _run_in_one_process(folder: Path, ports: range, pages: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-P",
        "-m",
        "musterd",
        "serve",
        "--test",
        "--brokers",
        f"{len(ports)}",
    ]
    command += ["--listen", f"{LOCAL}:{ports.start}", "--http", f"{LOCAL}:{pages.start}"]
    started: list[Running] = []
    with ended_together(started):
        started.append(Running("the cluster", command, folder / "cluster.log"))
        bootstrap = addresses(ports)
        until_all_are_there(started, bootstrap, len(ports))
        _show(bootstrap, pages, started[0])
        watch(started)


def _show(bootstrap: str, pages: range, process: Running) -> None:
    brokers = output.counted(len(pages), "broker")
    output.say(f"{brokers} at {bootstrap}, in process {process.pid}, {process.log}")
    output.say("for a trial: all data, and the registry that replaces ZooKeeper, are in memory")
    output.say(f"    $ export MUSTER_BOOTSTRAP={bootstrap}")
    output.say("    $ muster topics create orders -p 6")
    output.say("    $ muster cluster describe")
    if len(pages) > 1:
        post = f"    $ curl -X POST 'http://{LOCAL}:{pages.start}/test"
        output.say(f"{post}/move_leader?topic=orders&partition=1&to=2'")
        output.say(f"{post}/kill?broker=2'")
        output.say("    $ muster cluster why orders-1")
        output.say(f"{post}/start?broker=2'")
    show_pages(pages)
    output.say("Ctrl-C or SIGTERM stops the cluster; its data are lost")


def show_pages(pages: range) -> None:
    last = f"the page of broker {len(pages)} is http://{LOCAL}:{pages[-1]}"
    more = f", {last}" if len(pages) > 1 else ""
    output.say(f"the page of broker 1 is http://{LOCAL}:{pages.start}{more}")


def addresses(ports: range) -> str:
    """Returns the bootstrap servers for the given ports on this machine."""
    return ",".join(f"{LOCAL}:{each}" for each in ports)


def until_all_are_there(started: list[Running], bootstrap: str, brokers: int) -> None:
    """Waits until the brokers form a cluster. Raises CommandError if a process exits."""
    deadline = clock.Deadline(START_S)
    while True:
        for each in started:
            each.check()
        if _known(bootstrap) == brokers:
            return
        if deadline.left_s() <= 0:
            raise CommandError(f"the brokers did not form a cluster; see {started[0].log}")
        clock.sleep(LOOK_S)


def _known(bootstrap: str) -> int:
    """Returns the number of brokers in the cluster; 0 if the cluster has no controller."""
    try:
        reached = Cluster(bootstrap, timeout_s=ASK_S)
        answer = reached.metadata([])
        reached.close()
    except CommandError:
        return 0
    return len(answer["brokers"]) if answer["controller_id"] >= 0 else 0


def watch(running: list[Running]) -> None:
    """Warns of each process that exits, for example because the user has killed a broker. Returns
    when all processes were stopped. Raises CommandError if all have exited and one of them failed.
    """
    there = list(running)
    while there:
        for each in [each for each in there if each.code is not None]:
            there.remove(each)
            output.warn(
                f"{each.name} exited with {each.code}; see {each.log}"
                if each.code
                else f"{each.name} was stopped"
            )
        clock.sleep(LOOK_S)
    if any(each.code for each in running):
        raise CommandError("all processes have exited")
