"""A broker with one topic and the share group ``g``, for tests of ShareFetch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from broker.broker import Broker
from broker.time import Time
from log.files.filesystem import FileSystem
from security.principal import Principal
from share.persister.calls import StateReply
from tests.broker.serving import asked, serving
from tests.broker.share_calls import ShareMember, initialize
from tests.broker.topic_calls import create_topic, produce
from tests.waiting import until
from tests.wire import Wire, batch

T = TypeVar("T")


class Scene:
    """A broker, the topic ``t``, and connections to the broker. The methods are called in a thread
    of a client."""

    def __init__(
        self, broker: Broker, wire: Wire, topic_id: bytes, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.broker = broker
        self.wire = wire
        self.topic_id = topic_id
        self.loop = loop
        self._wires: list[Wire] = []

    def member(self, member_id: str, version: int = 2) -> ShareMember:
        wire = Wire(self.broker.sockets.addresses()[0][1])
        self._wires.append(wire)
        return ShareMember(wire, self.topic_id, member_id, version)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def produce(self, *values: bytes, partition: int = 0) -> None:
        assert produce(self.wire, "t", batch(*values), partition)["error_code"] == 0

    def delete_records(self, offset: int) -> None:
        partition = {"partition_index": 0, "offset": offset}
        topics = [{"name": "t", "partitions": [partition]}]
        self.wire.call("DeleteRecords", 2, {"topics": topics, "timeout_ms": 1000})

    # -- requests that wait

    def send_waiting(self, member: ShareMember, **fields: Any) -> None:
        """Sends a ShareFetch that waits up to a minute for records."""
        request = member.request(**{"max_wait_ms": 60_000, **fields})
        member.wire.send("ShareFetch", member.version, request)
        member.epoch += 1

    def receive(self, member: ShareMember) -> dict[str, Any]:
        """Returns the response to the request that `send_waiting` sent."""
        return member.wire.receive()[1]

    def until_waiting(self, count: int = 1) -> None:
        """Waits until ``count`` ShareFetch requests wait for records."""
        until("requests wait", lambda: self.in_loop(lambda: len(self.broker.long_polls)) == count)

    # -- inside the broker

    def in_loop(self, work: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
                done.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return done.result(20)

    def log_in_newest(self, principal: Principal) -> None:
        *_, newest = self.broker.server.connections
        newest.principal = principal

    def move(self, time: Any, by_ms: int) -> None:
        """Advances the mock time and releases records whose acquisition locks have expired."""

        def run() -> None:
            time.move(by_ms)
            self.broker.share_partitions.tick()

        self.in_loop(run)

    def forget_share_partitions(self) -> None:

        def run() -> None:
            partitions = self.broker.share_partitions
            partitions.counts.forget("g")
            for live in list(partitions.of_group("g")):
                partitions.drop(live)

        self.in_loop(run)

    # -- the share coordinator

    def initialize(self, epoch: int, start_offset: int) -> None:
        initialize(self.broker, self.loop, self.topic_id, 1, start_offset, epoch)

    def refuse(self, error_code: int) -> None:
        """Makes the share coordinator answer all calls with ``error_code``. NONE ends the
        refusal."""
        partitions = self.broker.share_partitions
        self.in_loop(lambda: setattr(partitions, "_persister", _Refusing(self, error_code)))

    def hold_writes(self) -> None:
        """Makes the share coordinator hold all calls until `let_writes` is called."""
        self._held = _Holding()
        self.in_loop(lambda: setattr(self.broker.share_partitions, "_persister", self._held))

    def let_writes(self) -> None:
        """Passes the calls that were held since `hold_writes` to the share coordinator. Later calls
        are not held."""

        def run() -> None:
            persister: Any = self.broker.share_persister
            self.broker.share_partitions._persister = persister
            for call in self._held.calls:
                persister.submit(call)

        until("a call is kept", lambda: self._held.calls)
        self.in_loop(run)

    def until_loaded(self) -> None:
        """Waits until the state of share partition 0 is loaded."""

        def is_loaded() -> bool:
            lives = list(self.broker.share_partitions.of_group("g"))
            return bool(lives) and all(live.share is not None for live in lives)

        until("the share partition is loaded", lambda: self.in_loop(is_loaded))


class _Holding:
    """A share coordinator that holds all calls and does not reply."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def submit(self, call: Any) -> None:
        self.calls.append(call)


class _Refusing:
    """A share coordinator that answers all calls with an error."""

    def __init__(self, scene: Scene, error_code: int) -> None:
        self._scene = scene
        self._error_code = error_code

    def submit(self, call: Any) -> None:
        if self._error_code:
            call.ticket.take(StateReply(self._error_code))
        else:
            self._scene.broker.share_persister.submit(call)


async def on_scene(
    directory: Path,
    work: Callable[[Scene], None],
    *,
    partitions: int = 1,
    start_offset: int = 0,
    is_initialized: bool = True,
    time: Time | None = None,
    fs: FileSystem | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Runs ``work`` with a broker whose topic ``t`` has share partitions of group ``g``."""
    loop = asyncio.get_running_loop()
    async with serving(directory, settings, fs=fs, time=time) as broker:

        def run(wire: Wire) -> None:
            topic_id = create_topic(wire, "t", partitions)["topic_id"]
            if is_initialized:
                initialize(broker, loop, topic_id, partitions, start_offset)
            scene = Scene(broker, wire, topic_id, loop)
            try:
                work(scene)
            finally:
                scene.close()

        await asked(broker, run)
