"""Measures how long a killed broker with many transactional ids takes to serve all of them again.

    .venv/bin/python -m bench.load_transactions --ids 100000

Each transactional id has a producer id, and every tenth has an open transaction over two
partitions. The tool kills the broker and starts it again. It measures the time from exec until
DescribeTransactions returns the same state of every id as before the kill, and the broker's CPU
time until then. The goal is 3 s.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.load_process import Process
from bench.load_restart import ask
from bench.secured import add_options, chosen
from protocol.headers import decode_response_header
from protocol.messages import BY_NAME
from tests.raw_connection import RawConnection, frame

GOAL_S = 3.0
AT_ONCE = 1000
"""The number of transactional ids in one DescribeTransactions request."""
TOPIC = "held"


def decoded(name: str, version: int, answers: dict[int, bytes]) -> dict[int, dict[str, Any]]:
    """Returns decoded responses by correlation id."""
    api = BY_NAME[name]
    found = {}
    for number, answer in answers.items():
        _, position = decode_response_header(api.key, version, answer)
        found[number] = api.decode_response(version, answer, position)
    return found


def fill(connection: RawConnection, ids: int) -> None:
    """Creates ``ids`` transactional ids, and opens a transaction for every tenth id."""
    topic = {"name": TOPIC, "num_partitions": 2, "replication_factor": 1}
    connection.call("CreateTopics", 4, topics=[topic], timeout_ms=20000)
    while connection.call("FindCoordinator", 1, key="id-0", key_type=1)["error_code"]:
        time.sleep(0.05)
    frames = [
        frame(
            "InitProducerId", 2, number,
            {"transactional_id": f"id-{number}", "transaction_timeout_ms": 900_000},
        )
        for number in range(ids)
    ]  # fmt: skip
    producers: dict[int, dict[str, Any]] = {}
    # the broker refuses some requests while it reserves producer ids; they are sent again
    while len(producers) < ids:
        answers: dict[int, bytes] = {}
        ask(connection.socket, [frames[n] for n in range(ids) if n not in producers], answers)
        found = decoded("InitProducerId", 2, answers)
        producers |= {n: each for n, each in found.items() if each["error_code"] == 0}
    partitions = [{"name": TOPIC, "partitions": [0, 1]}]
    opened: dict[int, bytes] = {}
    opening = [
        frame(
            "AddPartitionsToTxn", 2, number,
            {
                "v3_and_below_transactional_id": f"id-{number}",
                "v3_and_below_producer_id": producers[number]["producer_id"],
                "v3_and_below_producer_epoch": producers[number]["producer_epoch"],
                "v3_and_below_topics": partitions,
            },
        )
        for number in range(0, ids, 10)
    ]  # fmt: skip
    ask(connection.socket, opening, opened)
    for each in decoded("AddPartitionsToTxn", 2, opened).values():
        codes = [
            p["partition_error_code"]
            for p in each["results_by_topic_v3_and_below"][0]["results_by_partition"]
        ]
        assert codes == [0, 0], each


def asked(connection: RawConnection, ids: int) -> dict[int, bytes]:
    """Returns the DescribeTransactions responses for all transactional ids, by correlation id."""
    frames = [
        frame(
            "DescribeTransactions",
            0,
            first,
            {"transactional_ids": [f"id-{n}" for n in range(first, min(first + AT_ONCE, ids))]},
        )
        for first in range(0, ids, AT_ONCE)
    ]
    answers: dict[int, bytes] = {}
    ask(connection.socket, frames, answers)
    return answers


def states(answers: dict[int, bytes]) -> list[dict[str, Any]]:
    """Returns the description of every transactional id, in the order of the requests."""
    found = decoded("DescribeTransactions", 0, answers)
    return [each for first in sorted(found) for each in found[first]["transaction_states"]]


def restart(process: Process, ids: int, before: list[dict[str, Any]]) -> tuple[float, float]:
    """Starts the broker, and waits until it describes every transaction as in ``before``. Returns
    the seconds since exec, and the broker's CPU seconds."""
    process.start()
    connection = process.connected()
    first = [f"id-{n}" for n in range(0, ids, max(1, ids // 400))]  # some of every shard
    while True:
        response = connection.call("DescribeTransactions", 0, transactional_ids=first)
        if not any(each["error_code"] for each in response["transaction_states"]):
            break
        time.sleep(0.01)
    found = asked(connection, ids)
    taken_s, cpu_s = time.monotonic() - process.exec_at, process.cpu_s()
    assert states(found) == before, "the transactions differ from those before the kill"
    return taken_s, cpu_s


def main() -> None:
    """Starts a broker and creates the transactional ids. Then kills and restarts the broker three
    times, and measures each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=100_000)
    add_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        process = Process(data, chosen(options))
        process.access.add_user(data)
        try:
            process.start()
            began = time.monotonic()
            connection = process.connected()
            fill(connection, options.ids)
            before = states(asked(connection, options.ids))
            print(f"{options.ids} transactional ids created in {time.monotonic() - began:.1f} s")
            for _ in range(3):
                process.end(signal.SIGKILL)
                taken_s, cpu_s = restart(process, options.ids, before)
                verdict = "met" if taken_s <= GOAL_S else "missed"
                rss = process.status("VmRSS")
                print(
                    f"all ids served {taken_s:.2f} s after exec, {cpu_s:.2f} CPU s, {rss:.0f} MB;"
                    f" the goal of {GOAL_S:g} s is {verdict}"
                )
        finally:
            process.end(signal.SIGKILL)


if __name__ == "__main__":
    main()
