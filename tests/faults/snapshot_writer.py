"""A process that commits offsets and writes snapshots until it is killed.

Its first output line is JSON: the content of the directory when the process started. Each later
line has a group and its acknowledged offset.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from broker.cores import snapshots
from tests.broker.edge import EdgeBroker, eventually

TOPIC_ID = bytes([5]) * 16
GROUPS = 40


class Broker(EdgeBroker):
    """A broker with one shard. It writes snapshots of the shard."""

    async def ensure_offsets_topic(self) -> bool:
        if not self.groups.hosted_shards:
            self.groups.start(self.open_partitions(), TOPIC_ID)
        return True


async def main(directory: Path) -> None:
    snapshots.SLICE_NS = -1  # one slice per group; each slice is written at once
    snapshots.PENDING_BYTES = 0
    async with Broker(directory, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        await eventually(lambda: not broker.groups.life.loading)
        hosted = broker.groups.hosted_shards[0]
        written = broker.groups.life.snapshots
        assert written is not None
        found: dict[str, Any] = {
            group: hosted.core.view.offsets.fetch(group, "orders", [0, 1, 2]).offsets[:]
            for group in hosted.core.view.offsets.groups()
        }
        tell({"from": hosted.loaded_from, "found": {g: list(o) for g, o in found.items()}})
        number = max((offsets[0] for offsets in found.values()), default=0)
        committing = asyncio.create_task(commit(broker, number))
        while not committing.done():
            await written.write(hosted)
            await asyncio.sleep(0)
        await committing


async def commit(broker: Broker, number: int) -> None:
    client = await broker.client()
    while True:
        number += 1
        group = f"group-{number * 7 % GROUPS}"
        assert await client.commit(group, number, partitions=3) == 0
        tell([group, number])


def tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
