"""What a scrape of /metrics costs: CPU time, and how long the loop is held at a time.

    .venv/bin/python bench/scrape.py [--groups 1000] [--partitions 100] [--rounds 5]

A broker in this process, its HTTP side open, gets groups that have committed an offset in each
partition of one topic, all of them behind. One task takes a turn of the loop whenever it can, and
the longest CPU time between two of its turns is the pause. The client that scrapes runs in another
process, and only the CPU time of the loop's thread is counted: ages of records are looked up in
another one, a quarter of a core at most.
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
from broker.config import Config
from offsets.runs import OffsetRun
from protocol.records.batch import Record, encode_batch

RECORDS = 1000
FETCH = (
    "import sys, urllib.request as r; print(len(r.urlopen(sys.argv[1], timeout=60).read()), end='')"
)


async def filled(directory: str, groups: int, partitions: int) -> Broker:
    """A broker whose groups are behind by half of each log."""
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
    broker.ensure_offsets_topic()
    now_ms = int(time.time() * 1000)
    records = [Record(n, now_ms - 1000 * (RECORDS - n), None, b"v" * 20) for n in range(RECORDS)]
    for log in broker.logs.topics["orders"].logs:
        log.append(encode_batch(records), 0, now_ms)
    everywhere = list(range(partitions))
    for number in range(groups):
        host = broker.runtime.host_for(f"group-{number}")
        assert host is not None
        offsets = [RECORDS // 2 + (number + each) % 100 for each in everywhere]
        epochs = [0] * partitions
        run = OffsetRun(f"group-{number}", "orders", everywhere, offsets, epochs, None, now_ms, -1)
        host.accept([run])
        if number % 100 == 0:
            await asyncio.sleep(0)
    return broker


async def pauses(longest: list[float]) -> None:
    """Notes in ``longest`` the longest CPU time that this task had to wait for its turn."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        longest[0] = max(longest[0], now - before)
        before = now


async def measure(groups: int, partitions: int, rounds: int) -> None:
    """Prints a line for each scrape."""
    with tempfile.TemporaryDirectory() as directory:
        broker = await filled(directory, groups, partitions)
        where = await broker.start_http()
        gc.collect()
        gc.freeze()
        print(f"{groups * partitions} group-partitions in {groups} groups")
        for number in range(rounds):
            began = time.thread_time()
            size = await scrape(f"http://{where}/metrics")
            cpu_s = time.thread_time() - began
            # Again, with a task that takes every turn: its own CPU time would count above.
            longest = [0.0]
            watch = asyncio.create_task(pauses(longest))
            await scrape(f"http://{where}/metrics")
            watch.cancel()
            waiting = broker.lags.waiting
            print(
                f"scrape {number + 1}: {cpu_s:.2f} s of CPU, {size / 1e6:.1f} MB, longest pause"
                f" {longest[0] * 1000:.1f} ms, {waiting} times still to be looked up",
                flush=True,
            )
            if number == rounds - 2:
                await broker.lags.settled()
        await broker.stop()


async def scrape(url: str) -> int:
    """Bytes of an answer, fetched by another process."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FETCH, url, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await client.communicate()
    return int(out)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(measure(given.groups, given.partitions, given.rounds))


if __name__ == "__main__":
    main()
