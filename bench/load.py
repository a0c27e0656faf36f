"""Measures the restart of a killed broker, and the memory of a million cached offsets.

The tool commits 10,000,000 offsets (50 partitions per request, random groups), of which 1,000,000
in 20,000 groups are live. It kills the broker under load and restarts it, with its snapshots and
without. The measured time runs from exec until the broker has returned the acknowledged offsets of
every group to OffsetFetch, and the Heartbeat of each restored member succeeds. Then the tool
commits as many offsets again.

    python -m bench.load [--scale 0.1] [--data DIR] [--command-config FILE --server-config FILE]

The output has a line for each goal: name, figure, goal, and whether the figure meets the goal. The
broker's first start compiles its modules, as for an installed broker.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from bench.load_process import Process, disk
from bench.load_restart import Restart, restart
from bench.load_work import PARTITIONS, TOPIC, Work, commit, join
from bench.secured import add_options, chosen

GROUPS = 20_000
COMMITS = 200_000
GOAL_WITH_S, GOAL_WITHOUT_S, GOAL_TURN_MS, GOAL_MB = 3.0, 15.0, 20.0, 150.0


def verdict(what: str, figure: float, unit: str, goal: float) -> str:
    """Returns the output line of one figure and its goal, which is the highest allowed figure."""
    met = "met" if figure <= goal else "MISSED"
    return f"{what:<52} {figure:8.2f} {unit:<3} goal {goal:g} {unit}: {met}"


def tell(what: str, found: Restart, goal_s: float | None) -> None:
    """Prints the figures of a start of the broker. ``goal_s`` is None if the start has no goal."""
    if goal_s is None:
        print(f"{what + ', all groups':<52} {found.last_s:8.2f} s", flush=True)
    else:
        print(verdict(f"{what}, all groups", found.last_s, "s", goal_s), flush=True)
        print(verdict(f"{what}, another client's wait", found.longest_wait_ms, "ms", GOAL_TURN_MS))
    print(
        f"    listens after {found.listens_s:.2f} s, first group {found.first_s:.2f} s;"
        f" the broker's CPU {found.cpu_s:.2f} s",
        flush=True,
    )


def main() -> None:
    """Runs the benchmark in the directory of ``--data``, or in a temporary directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of 20,000 groups")
    parser.add_argument(
        "--data", type=Path, help="an empty directory; default: a temporary directory"
    )
    parser.add_argument("--seed", type=int, default=1)
    add_options(parser)
    options = parser.parse_args()
    directory = options.data or Path(tempfile.mkdtemp(prefix="muster-load-"))
    work = Work(int(GROUPS * options.scale), int(COMMITS * options.scale))
    process = Process(directory / "data", chosen(options))
    process.data.mkdir(parents=True)
    process.access.add_user(process.data)
    try:
        measure(process, work, random.Random(options.seed))
    finally:
        process.end(signal.SIGKILL)
        if options.data is None:
            shutil.rmtree(directory)


def measure(process: Process, work: Work, chance: random.Random) -> None:
    """Measures three starts of the broker and its resident memory, and prints the figures."""
    millions = work.groups * PARTITIONS / 1e6
    empty_mb = make(process, work)
    print(f"empty: {empty_mb:.0f} MB", flush=True)
    took = commit(process, work, chance, True, kill_at=work.commits)
    offsets = work.commits * PARTITIONS
    print(f"{offsets:,} offsets committed in {took:.1f} s; {disk(process.data)}", flush=True)
    killed = process.data.parent / "killed"
    copy_aside(process.data, killed)
    acked = dict(work.acked)
    tell("killed, with snapshots", restart(process, work), GOAL_WITH_S)
    process.end(signal.SIGKILL)
    shutil.rmtree(process.data)  # the cleaner has removed most records by now
    killed.rename(process.data)
    work.acked = acked
    for image in process.data.glob("__consumer_offsets-*/groups.image"):
        image.unlink()
    found = restart(process, work)
    tell("killed, snapshots deleted", found, GOAL_WITHOUT_S)
    loaded_mb = (found.rss_mb - empty_mb) / millions
    print(verdict("a million offsets, loaded", loaded_mb, "MB", GOAL_MB), flush=True)
    took = commit(process, work, chance, False)
    again_mb = (process.status("VmRSS") - empty_mb) / millions
    print(f"{offsets:,} more in {took:.1f} s; {disk(process.data)}", flush=True)
    print(verdict("a million offsets, after more commits", again_mb, "MB", GOAL_MB), flush=True)
    process.end(signal.SIGTERM)
    tell("stopped in order", restart(process, work), None)


def copy_aside(source: Path, target: Path) -> None:
    """Copies a directory, fsyncs the copy, and drops the copy from the page cache.

    Without the fsync, the system would write half a gigabyte to disk during the next measured
    start.
    """
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def make(process: Process, work: Work) -> float:
    """Starts a broker, creates the topic and the members. Returns the resident memory of the empty
    broker in MB.

    The memory is measured at the second start, because the first start also compiles modules, which
    takes some megabytes.
    """
    process.start()
    process.connected().close()
    process.end(signal.SIGTERM)
    process.start()
    with process.connected() as connection:
        topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
        made = connection.call("CreateTopics", 4, topics=[topic], timeout_ms=20000)
        assert made["topics"][0]["error_code"] == 0, made
        found = connection.call("FindCoordinator", 1, key="x", key_type=0)
        assert found["error_code"] == 0, found
        time.sleep(1)
        empty_mb = process.status("VmRSS")
        join(connection, work)
    return empty_mb


if __name__ == "__main__":
    main()
