"""`muster consume`: print the records of topics, alone or as a member of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from cli import clock, output
from cli.client.cluster import Cluster, Connection
from cli.client.fetch import fetch
from cli.client.group_member import GroupMember
from cli.client.offsets_at import EARLIEST, LATEST, Partition, offsets_at
from cli.errors import USAGE, CommandError
from cli.options import (
    BOOTSTRAP,
    INT32,
    TIMEOUT_S,
    Bootstrap,
    Json,
    Timeout,
    TopicNames,
    seconds,
    whole_number,
)
from cli.streams import follow
from protocol.records.section import Record
from protocol.records.stored import iter_stored, stored_records

MAX_BYTES = 8 << 20
WAIT_MS = 500


def consume(
    topics: TopicNames,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", metavar="GROUP", help="Join this group and commit its offsets."
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the first record.")
    ] = False,
    partition: Annotated[
        int | None, whole_number("--partition", "-p", most=INT32, help="Only this partition.")
    ] = None,
    offset: Annotated[
        int | None, whole_number("--offset", "-o", help="Start here, with -p.")
    ] = None,
    max_messages: Annotated[
        int | None, whole_number("--max-messages", "-n", least=1, help="End after so many records.")
    ] = None,
    idle: Annotated[
        float | None, seconds("--idle", least=0, help="End after so long without a record.")
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Print the key and a tab before the value.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Print records as they come; end with Ctrl-C, --max-messages or --idle."""
    if group is not None and (partition is not None or offset is not None):
        raise CommandError(
            "a group assigns partitions itself: leave out --partition and --offset", USAGE
        )
    if offset is not None and partition is None:
        raise CommandError("--offset needs --partition", USAGE)
    cluster = Cluster(bootstrap, timeout_s=timeout)
    consumer = Consumer(cluster, topics, group, EARLIEST if from_beginning else LATEST)
    left = max_messages if max_messages is not None else -1
    try:
        consumer.start(partition, offset)
        last_s = clock.monotonic_s()
        while left:
            for where, record in consumer.poll(left):
                _show(where, record, keys, json)
                last_s = clock.monotonic_s()
                left -= 1
                if not left:
                    break
            if idle is not None and clock.monotonic_s() - last_s > idle:
                break
    except (KeyboardInterrupt, SystemExit):
        cluster.reconnect()  # a JoinGroup may be waiting for other members
        raise
    finally:
        consumer.close()


def _show(where: Partition, record: Record, keys: bool, json: bool) -> None:
    if json:
        output.show_json_line(
            {
                "topic": where[0],
                "partition": where[1],
                "offset": record.offset,
                "timestamp_ms": record.timestamp,
                "key": record.key,
                "value": record.value,
                "headers": [[name, value] for name, value in record.headers],
            }
        )
        return
    value = (record.value or b"").decode(errors="replace")
    key = (record.key or b"").decode(errors="replace")
    follow(f"{key}\t{value}\n" if keys else f"{value}\n")


class Consumer:
    """Fetches in turn from the leaders of the partitions that it owns."""

    def __init__(
        self, cluster: Cluster, topics: list[str], group: str | None, start_at: int
    ) -> None:
        self.cluster, self.topics, self.start_at = cluster, topics, start_at
        self.member = GroupMember(cluster, group, topics) if group is not None else None
        self.positions: dict[Partition, int] = {}
        self.leaders = cluster.leaders(topics)

    def start(self, partition: int | None, offset: int | None) -> None:
        """Take partitions: those of the group's assignment, the one named, or all."""
        if self.member is not None:
            self._join()
            return
        wanted = [key for key in self.leaders if partition is None or key[1] == partition]
        if not wanted:
            raise CommandError(f"{', '.join(self.topics)} has no partition {partition}")
        if offset is not None:
            self.positions = dict.fromkeys(wanted, offset)
        else:
            self.positions = offsets_at(self.cluster, wanted, self.start_at)

    def _join(self) -> None:
        assert self.member is not None
        owned = self.member.join()
        committed = self.member.committed() if owned else {}
        fresh = [key for key in owned if key not in committed]
        self.positions = {**offsets_at(self.cluster, fresh, self.start_at), **committed}

    def poll(self, most: int) -> Iterator[tuple[Partition, Record]]:
        """Yield what is there now, at most ``most`` records when it is not negative.

        The position moves past a record before it is yielded; positions are committed at the next
        poll, so a record is printed before it counts as read.
        """
        if self.member is not None:
            if not (self.member.beat() and self.member.commit(self.positions)):
                self._join()
            if not self.positions:
                clock.sleep(WAIT_MS / 1000)
        by_leader: dict[Connection, list[Partition]] = {}
        for key in self.positions:
            by_leader.setdefault(self.leaders[key], []).append(key)
        for leader, keys in by_leader.items():
            for where, record in self._fetch(leader, keys):
                self.positions[where] = record.offset + 1
                yield where, record
                most -= 1
                if not most:
                    return

    def _fetch(
        self, leader: Connection, keys: list[Partition]
    ) -> Iterator[tuple[Partition, Record]]:
        answers = fetch(
            leader,
            keys,
            self.positions,
            partition_max_bytes=MAX_BYTES,
            max_bytes=MAX_BYTES,
            min_bytes=1,
            max_wait_ms=WAIT_MS,
        )
        for where, answer in answers:
            if answer["error_code"]:
                self.positions.update(offsets_at(self.cluster, [where], self.start_at))
            else:
                yield from self._records(where, bytes(answer["records"] or b""))

    def _records(self, where: Partition, data: bytes) -> Iterator[tuple[Partition, Record]]:
        for header, _ in iter_stored(data, partial=True):
            if header.is_control:
                self.positions[where] = header.last_offset + 1
                continue
            for record in stored_records(data, header):
                if record.offset >= self.positions[where]:
                    yield where, record

    def close(self) -> None:
        """Commit what was printed and leave the group."""
        if self.member is not None and self.member.member_id:
            self.member.commit(self.positions)
            self.member.leave()
        self.cluster.close()
