"""`/api/live`: server-sent events. docs/use/http-api.md describes their format.

A *channel* consists of a head and of rows in named tables, which broker/web/live/rows.py creates.
One task for each channel reads the channel's source in slices. It reads at most once per
``TICK_S``, and less often if reading would use more than a twentieth of a CPU core. Changes are
encoded once for all clients. A client that reads too slowly gets the full state again when it has
read its queued events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs

import structlog
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from broker.loop.background import repeat
from broker.loop.slices import Slicer, Slices
from broker.time import Time
from broker.web.answers import ALONE
from broker.web.readers.reader import Reader, reader_of

TICK_S = 1.0
SOONEST_S = 0.2
"""The minimum pause in seconds between two updates of the event stream."""
CLIENTS_MAX = 32
EVENTS_QUEUED_MAX = 64
"""The maximum number of queued events of a client. A client above this number is `behind`."""
ROWS_PER_EVENT = 500
PING_S = 5.0
SEND_S_MAX = 30.0
"""A client that needs more than this number of seconds to read one event is disconnected."""
STANDS_S = 10.0
"""The number of seconds between two checks whether a reader's login is still valid."""
_IDLE_PER_BUSY = 20

logger = structlog.get_logger(__name__)

Watched = tuple[str, object]
"""Identifies the data that a client of `/api/live` watches: the query parameter ``watch``, and a
key that is the same for all readers with the same rights."""
Place = tuple[str, str]
"""The position of a row: table name and row key."""


class Row(NamedTuple):
    """A row of a channel. ``make`` creates the row's data; it is called if ``token`` has changed or
    is None."""

    table: str
    key: str
    token: object
    make: Callable[[], object]


class Source(Protocol):
    """The data of a channel. Only the loop's thread reads it."""

    @property
    def epoch(self) -> int:
        """A number that changes when the rights of the reader may have changed."""
        return 0

    async def prepare(self, slices: Slices) -> None:
        """Prepares data that takes long to read, before an update. Most sources do nothing."""
        del slices

    def head(self) -> dict[str, Any]:
        """Returns the head: the small part of the data that each update sends."""

    def rows(self) -> Iterator[Row | None]:
        """Yields the rows of the tables. Yields None where a slice may end."""

    def topics_named(self, row: Row | None) -> Iterable[str]:
        """Returns the topics that the texts of a row may name, beyond the topics in the fields of
        the row. If ``row`` is None, returns the topics that the texts of `head` may name."""
        del row
        return ()


class Client:
    """One connection to `/api/live`, and the events that are queued for it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(EVENTS_QUEUED_MAX)
        self.behind = True
        """True if the client needs the full state, because events were dropped."""

    def offer(self, event: bytes) -> None:
        """Queues an event. If the queue is full, drops the event and sets `behind`."""
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.behind = True


class Channel:
    """One channel of `/api/live`: the last data of its source as JSON texts, and the clients that
    receive it."""

    def __init__(self, source: Source, time: Time, slicer: Slicer) -> None:
        self.source = source
        self.clients: set[Client] = set()
        self.read = asyncio.Event()
        self.wake = asyncio.Event()
        """An event that is set when the channel should be updated soon."""
        self.task: asyncio.Task[None] | None = None
        self._time = time
        self._slicer = slicer
        self._pause_s = 0.0
        """The minimum number of seconds before the next update; 0 before the first update."""
        self._epoch = 0
        """The value of the source's ``epoch`` when the last update began."""
        self._head = ""
        self._rows: dict[Place, tuple[object, str]] = {}
        """The token and the JSON text of each row, by table and row key."""

    async def run(self) -> None:
        await repeat(self._time, lambda: self._pause_s, self._look_again, _look_failed)

    async def _look_again(self) -> None:
        if 0 < self._pause_s < TICK_S:
            with suppress(TimeoutError):
                async with self._time.within(TICK_S - self._pause_s):
                    await self.wake.wait()
        self.wake.clear()
        self._pause_s = TICK_S * _IDLE_PER_BUSY
        self._pause_s = max(SOONEST_S, _IDLE_PER_BUSY * await self.look())
        self.read.set()

    async def look(self) -> float:
        """Reads the source and sends the changes. Returns the number of seconds for which this
        blocked the loop."""
        slices = self._slicer.work("/api/live")
        self._epoch = self.source.epoch
        before = self._rows
        seen: set[Place] = set()
        changes: list[str] = []
        await self.source.prepare(slices)
        for row in self.source.rows():
            if row is not None:
                place = (row.table, row.key)
                seen.add(place)
                known = before.get(place)
                if known is None or row.token is None or known[0] != row.token:
                    text = _row_text(place, _text(row.make()))
                    before[place] = (row.token, text)
                    if known is None or known[1] != text:
                        changes.append(text)
            if slices.over:
                await slices.pause()
        for place in [place for place in before if place not in seen]:
            del before[place]
            changes.append(_row_text(place, "null"))
        head = _text(self.source.head())
        if changes or head != self._head:
            self._head = head
            for event in self._events(changes, reset=False):
                for client in self.clients:
                    client.offer(event)
                if slices.over:
                    await slices.pause()
        return slices.end()

    async def looked(self) -> None:
        """Waits for the first update of the rows. If the rights of readers change, waits for
        another update, which begins after this change."""
        await self.read.wait()
        while self._epoch != self.source.epoch:
            self.read.clear()
            self.wake.set()
            await self.read.wait()

    def everything(self) -> Iterator[bytes]:
        return self._events([text for _, text in self._rows.values()], reset=True)

    def _events(self, rows: list[str], *, reset: bool) -> Iterator[bytes]:
        head, at_ms = self._head, self._time.now().wall_ms
        for first in range(0, len(rows) or 1, ROWS_PER_EVENT):
            more = first + ROWS_PER_EVENT < len(rows)
            yield (
                f'data: {{"at_ms": {at_ms}, "reset": {_flag(reset and not first)},'
                f' "more": {_flag(more)}, "head": {head},'
                f' "rows": [{", ".join(rows[first : first + ROWS_PER_EVENT])}]}}\n\n'
            ).encode()


class Live:
    """The ASGI application of `/api/live`. It manages all channels of a broker."""

    def __init__(
        self, find: Callable[[str, Reader], Source | None], time: Time, slicer: Slicer
    ) -> None:
        self.channels: dict[Watched, Channel] = {}
        """The channels that have at least one client."""
        self.clients = 0
        self._find = find
        self._time = time
        self._slicer = slicer
        self._open: set[asyncio.Task[Any]] = set()

    def happened(self) -> None:
        """Called after an event. Makes every channel update soon."""
        for channel in self.channels.values():
            channel.wake.set()

    async def stop(self) -> None:
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        watch = asked.get("watch", ["groups"])[0]
        reader = reader_of(scope)
        watched = (watch, reader.key)
        source = self._find(watch, reader)
        if source is None or scope["method"] != "GET":
            kinds = (
                "groups, groups/GROUP, transactions, transactions/ID, topics, topics/TOPIC, broker"
            )
            problem = f"watch={watch} is unknown; use one of {kinds}"
            if watch == "cluster":
                problem = ALONE
            await JSONResponse({"error": problem}, 404)(scope, receive, send)
            return
        if self.clients >= CLIENTS_MAX:
            problem = f"{CLIENTS_MAX} clients are watching already; try again later"
            await JSONResponse({"error": problem}, 503)(scope, receive, send)
            return
        self.clients += 1
        client = Client()
        channel = self._join(watched, source, client)
        writer = asyncio.create_task(_write(self._time, channel, client, reader, send))
        leaver = asyncio.create_task(_until_gone(receive))
        self._open |= {writer, leaver}
        try:
            await asyncio.wait({writer, leaver}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.clients -= 1
            self._leave(watched, channel, client)
            for task in (writer, leaver):
                task.cancel()
                self._open.discard(task)
            await asyncio.gather(writer, leaver, return_exceptions=True)
        if leaver.cancelled():  # the client is still connected
            with suppress(OSError, TimeoutError):
                async with self._time.within(1):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _join(self, watched: Watched, source: Source, client: Client) -> Channel:
        channel = self.channels.get(watched)
        if channel is None:
            channel = self.channels[watched] = Channel(source, self._time, self._slicer)
            channel.task = asyncio.create_task(channel.run())
        channel.clients.add(client)
        return channel

    def _leave(self, watched: Watched, channel: Channel, client: Client) -> None:
        channel.clients.discard(client)
        if not channel.clients and channel.task is not None:
            channel.task.cancel()
            del self.channels[watched]


async def _write(time: Time, channel: Channel, client: Client, reader: Reader, send: Send) -> None:
    """Sends the channel's events to one client. Ends when the login of ``reader`` is no longer
    valid."""
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    # Sent at once: the client learns that it is connected, and how soon to reconnect.
    await _send(time, send, b"retry: 1000\n\n")
    await channel.looked()
    asked_s = time.monotonic_s()
    while True:
        if time.monotonic_s() - asked_s >= STANDS_S:
            if not await reader.stands():
                return
            asked_s = time.monotonic_s()
        if client.behind:
            await channel.looked()
            client.behind = False
            while not client.queue.empty():
                client.queue.get_nowait()
            await _send_all(time, send, channel.everything())
        try:
            async with time.within(PING_S):
                event = await client.queue.get()
        except TimeoutError:
            event = b": still here\n\n"
        await _send(time, send, event)


async def _send_all(time: Time, send: Send, events: Iterable[bytes]) -> None:
    for event in events:
        await _send(time, send, event)
        await time.sleep(0)


async def _send(time: Time, send: Send, event: bytes) -> None:
    async with time.within(SEND_S_MAX):
        await send({"type": "http.response.body", "body": event, "more_body": True})


def _look_failed(error: Exception) -> None:
    logger.error("update of /api/live can't be computed, retrying", exc_info=error)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _row_text(place: Place, text: str) -> str:
    return f"[{_text(place[0])}, {_text(place[1])}, {text}]"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def steady(wall_ms: int) -> int:
    """Returns ``wall_ms`` rounded to 100 ms. Without rounding, a time that is computed from two
    clocks would vary by 1 ms."""
    return wall_ms // 100 * 100
