"""Measures the cost of a scrape of /metrics: CPU time, and the longest pause of the event loop.

    .venv/bin/python bench/scrape.py [--groups 1000] [--partitions 100] [--rounds 3]

The tool runs a broker with HTTP in its own process. Every group has committed an offset in each
partition of one topic, and has lag in all of them. The tool measures two kinds of scrapes: with the
ages of all records known, and after every commit has moved to a record whose age is unknown. A task
that runs in every round of the event loop measures the CPU time between two of its runs; the
longest of these times is the longest pause. The scraping client runs in another process. The output
shows the CPU time of the event loop's thread, and separately the CPU time of the thread that looks
up ages (at most a quarter of a core).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from broker.broker import Broker
from broker.config.config import Config
from broker.topics.registry import OFFSETS_TOPIC
from offsets.runs import OffsetRun
from protocol.records.batch import encode_batch
from protocol.records.section import Record

BATCH_RECORDS = 50
BATCHES = 80
RECORDS = BATCHES * BATCH_RECORDS
FETCH = (
    "import sys, urllib.request as r; print(len(r.urlopen(sys.argv[1], timeout=60).read()), end='')"
)


async def filled(directory: str, partitions: int) -> Broker:
    """Returns a broker whose topic has records in each partition."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": directory,
        "http.listener": "127.0.0.1:0",
        "log.level": "error",
    }
    broker = Broker(Config(settings))
    broker.open()
    await broker.start()
    await broker.topics.create("orders", partitions, {})
    await broker.topics.ensure(OFFSETS_TOPIC)
    now_ms = int(time.time() * 1000)
    for partition in broker.logs.topics["orders"].partitions:
        for batch in range(BATCHES):
            age_ms = 1000 * (RECORDS - batch * BATCH_RECORDS)
            made = [Record(n, now_ms - age_ms + n, None, b"v" * 20) for n in range(BATCH_RECORDS)]
            partition.append(encode_batch(made), now_ms)
        await asyncio.sleep(0)
    return broker


async def commit(broker: Broker, groups: int, partitions: int, turn: int) -> None:
    """Commits an offset in each partition for each group. Calls with different values of ``turn``
    commit different offsets."""
    everywhere = list(range(partitions))
    now_ms = int(time.time() * 1000)
    for number in range(groups):
        hosted = broker.groups.hosted_for(f"group-{number}")
        assert hosted is not None
        offsets = [(number + each + turn * groups) % RECORDS for each in everywhere]
        epochs = [0] * partitions
        run = OffsetRun(f"group-{number}", "orders", everywhere, offsets, epochs, None, now_ms, -1)
        hosted.accept([run])
        if number % 100 == 0:
            await asyncio.sleep(0)


async def pauses(longest: list[float]) -> None:
    """Measures in an endless loop how much CPU time each iteration of the event loop takes. Stores
    the maximum in ``longest[0]``."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        longest[0] = max(longest[0], now - before)
        before = now


async def measure(groups: int, partitions: int, rounds: int) -> None:
    """Measures scrapes of each kind, and prints a line for each."""
    with tempfile.TemporaryDirectory() as directory:
        broker = await filled(directory, partitions)
        await commit(broker, groups, partitions, 0)
        await broker.start_http()
        where = broker.sockets.http_address()
        gc.collect()
        gc.freeze()
        print(f"{groups * partitions} group-partitions in {groups} groups")
        for turn in range(rounds):
            await commit(broker, groups, partitions, 2 * turn + 1)
            await look(broker, f"http://{where}/metrics", "every commit moved")
            await commit(broker, groups, partitions, 2 * turn + 2)
            await look(broker, f"http://{where}/metrics", "every commit moved", pause=True)
            await broker.lags.times.settled()
            await look(broker, f"http://{where}/metrics", "all ages known")
            await look(broker, f"http://{where}/metrics", "all ages known", pause=True)
        await broker.stop()


async def look(broker: Broker, url: str, kind: str, pause: bool = False) -> None:
    """Scrapes once. Prints the CPU time or, if ``pause`` is True, the longest pause of the event
    loop.

    CPU time and pause come from separate scrapes, because the measurement of the pause takes CPU
    time.
    """
    longest = [0.0]
    watch = asyncio.create_task(pauses(longest)) if pause else None
    loop_s, all_s, began = time.thread_time(), time.process_time(), time.perf_counter()
    size = await scrape(url)
    loop_s, all_s = time.thread_time() - loop_s, time.process_time() - all_s
    waiting = broker.lags.times.waiting
    if watch is not None:
        watch.cancel()
        print(f"{kind}: longest pause {longest[0] * 1000:.1f} ms", flush=True)
        return
    print(
        f"{kind}: {loop_s:.2f} s of CPU and {all_s - loop_s:.2f} s for ages;"
        f" clock time {time.perf_counter() - began:.1f} s, {size / 1e6:.1f} MB,"
        f" {waiting} record times not looked up yet",
        flush=True,
    )


async def scrape(url: str) -> int:
    """Requests ``url`` from another process. Returns the size of the response in bytes."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FETCH, url, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await client.communicate()
    return int(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(measure(given.groups, given.partitions, given.rounds))


if __name__ == "__main__":
    main()
