"""Compares a cluster of three Musters with one of three Apache Kafkas 3.9.2 in ZooKeeper mode.

    .venv/bin/python -m bench.cluster [--only produce,idle] [--rounds 3] [--secs 4]
      [--command-config FILE --server-config FILE]

Each kind has three brokers and its own ZooKeeper, on this machine. The output has the medians of
the rounds and, if both kinds were measured, Kafka's figure divided by Muster's. A line above the
figures says at which event each measurement starts and ends; the same code measures both kinds. The
tool needs Java, Go 1.24, and Kafka's jars, which Maven downloads once, as for the interop tests.
One scenario takes one to two minutes.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import secured
from bench.cluster import controller, coordinator, idle, leadership, produce, rejoin
from bench.cluster.running import KINDS, MeasuredCluster, running
from tests.interop.zookeeper_cluster import KAFKA, MUSTER

Figures = dict[str, float]


class Scenario(NamedTuple):
    """A measurement that runs on the clusters of both kinds, Muster and Kafka."""

    what: str
    span: str
    """The events at which the measurement starts and ends, as text for the output."""
    prepare: Callable[[MeasuredCluster, float], None]
    """A function that prepares a cluster once. Its float argument is the warm-up time in seconds.
    """
    measure: Callable[[MeasuredCluster, float], Figures]
    """A function that measures one round. Its float argument is the approximate duration in
    seconds."""
    rounds: int | None = None
    """The maximum number of rounds; None if ``--rounds`` alone decides."""
    settings: Mapping[str, str] = {}
    beside: bool = True
    """True if the Muster and the Kafka cluster run at the same time and are measured alternately.
    False if one cluster runs after the other."""


SCENARIOS = {
    "produce": Scenario(
        "acks=all, 1 kB, three replicas", produce.SPAN, produce.prepare, produce.measure
    ),
    "idle": Scenario(
        "3,000 partitions, three replicas, idle", idle.SPAN, idle.prepare, idle.measure, rounds=1
    ),
    "leadership": Scenario(
        "200 partitions without a leader",
        leadership.SPAN,
        leadership.prepare,
        leadership.measure,
        settings=leadership.SETTINGS,
        beside=False,
    ),
    "controller": Scenario(
        "fail-over of the controller, 5,000 partitions",
        controller.SPAN,
        controller.prepare,
        controller.measure,
        beside=False,
    ),
    "coordinator": Scenario(
        "fail-over of a coordinator with 1,000,000 offsets",
        coordinator.SPAN,
        coordinator.prepare,
        coordinator.measure,
        settings=coordinator.SETTINGS,
        beside=False,
    ),
    "rejoin": Scenario(
        "a follower that missed 1 GiB",
        rejoin.SPAN,
        rejoin.prepare,
        rejoin.measure,
        rounds=1,
        beside=False,
    ),
}


def main() -> None:
    """Runs the scenarios of ``--only``, by default all."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the brokers end with this process
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--only",
        default="",
        help=f"the scenarios, separated by commas; default: {','.join(SCENARIOS)}",
    )
    options.add_argument("--kinds", default=",".join(KINDS))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--secs", type=float, default=4)
    options.add_argument(
        "--warm", type=float, default=10, help="seconds of load before the first round"
    )
    secured.add_options(options)
    given = options.parse_args()
    access = secured.chosen(given)
    chosen = [name for name in given.only.split(",") if name] or list(SCENARIOS)
    for name in chosen:
        began = time.perf_counter()
        found = run(SCENARIOS[name], given, access)
        table(name, found, time.perf_counter() - began)


def run(
    scenario: Scenario, given: argparse.Namespace, access: secured.Access
) -> dict[str, list[Figures]]:
    """Measures a scenario. Returns the figures of each round, by kind of cluster."""
    rounds = min(given.rounds, scenario.rounds or given.rounds)
    found: dict[str, list[Figures]] = {kind: [] for kind in given.kinds.split(",")}
    turns = [list(found)] if scenario.beside else [[kind] for kind in found]
    for kinds in turns:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-")))
            clusters = {
                kind: stack.enter_context(running(folder / kind, kind, scenario.settings, access))
                for kind in kinds
            }
            for cluster in clusters.values():
                scenario.prepare(cluster, given.warm)
            for _ in range(rounds):
                for kind, cluster in clusters.items():
                    found[kind].append(scenario.measure(cluster, given.secs))
    return found


def table(name: str, found: Mapping[str, list[Figures]], took_s: float) -> None:
    """Prints one line for each figure, with the median of each kind of cluster."""
    scenario, rounds = SCENARIOS[name], max(map(len, found.values()))
    print(f"{name}: {scenario.what}; medians of {rounds} rounds; duration {took_s:.0f} s")
    print(f"    {scenario.span}")
    print(f"    {'':32}{''.join(f'{kind:>10}' for kind in found)}{'kafka/muster':>14}")
    for figure in dict.fromkeys(name for rounds in found.values() for name in rounds[0]):
        medians = {
            kind: statistics.median(each[figure] for each in rounds)
            for kind, rounds in found.items()
            if figure in rounds[0]
        }
        shown = [f"{medians[kind]:10.2f}" if kind in medians else " " * 10 for kind in found]
        line = f"    {figure:32}{''.join(shown)}"
        if len(medians) == len(KINDS) and medians[MUSTER]:
            line += f"{medians[KAFKA] / medians[MUSTER]:14.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
