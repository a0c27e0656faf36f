"""`AsyncMuster` is `Muster` for asyncio. Its faults, time and waits are in the module `awaited`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from musterd.testing.awaited import AsyncBrokerTime, AsyncFault, AsyncWaiting, Begun, Underneath
from musterd.testing.faults import Fault
from musterd.testing.views import Committed, Group, JournalEvent, Member, Record, SeenRequest


class AsyncMuster:
    """`Muster` for asyncio: `async with AsyncMuster() as broker:`.

    >>> async def test() -> None:
    ...     async with AsyncMuster() as broker:
    ...         await broker.create_topic("orders", partitions=3)
    ...         async with broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER"):
    ...             ...  # clients refresh their metadata
    >>> asyncio.run(test())
    """

    def __init__(
        self, *, data: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None, port: int = 0, http_port: int = 0,
        start_timeout_s: float = 30.0,
    ) -> None:  # fmt: skip
        self._broker = Underneath(
            data=data, settings=settings, port=port, http_port=http_port,
            start_timeout_s=start_timeout_s,
        )  # fmt: skip
        self.time = AsyncBrokerTime(self._broker)
        """The broker's clocks: `advance`, `freeze`, `run`, `now`, `follow`."""

    @property
    def bootstrap_servers(self) -> str:
        """Implements `Muster.bootstrap_servers` for asyncio."""
        return self._broker.bootstrap_servers

    @property
    def http(self) -> str:
        """Implements `Muster.http` for asyncio."""
        return self._broker.http

    @property
    def pid(self) -> int:
        """Implements `Muster.pid` for asyncio."""
        return self._broker.pid

    @property
    def lines(self) -> list[str]:
        """Implements `Muster.lines` for asyncio."""
        return self._broker.lines

    async def start(self) -> None:
        """Implements `Muster.start` for asyncio. If the task is cancelled during the start, closes
        the broker."""
        starting = asyncio.ensure_future(self._broker.run(self._broker.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(BaseException):
                await starting
            await self.close()
            raise

    async def stop(self) -> None:
        """Implements `Muster.stop` for asyncio."""
        await self._broker.run(self._broker.stop)

    async def kill(self) -> None:
        """Implements `Muster.kill` for asyncio."""
        await self._broker.run(self._broker.kill)

    async def restart(self) -> None:
        """Implements `Muster.restart` for asyncio."""
        await self._broker.run(self._broker.restart)

    async def reset(self) -> None:
        """Implements `Muster.reset` for asyncio."""
        await self._broker.run(self._broker.reset)

    async def close(self) -> None:
        """Implements `Muster.close` for asyncio."""
        await self._broker.run(self._broker.close)
        self._broker.threads.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()

    async def create_topic(
        self, name: str, partitions: int | None = None,
        configs: Mapping[str, object] | None = None, **more: object,
    ) -> None:  # fmt: skip
        """Implements `Muster.create_topic` for asyncio."""
        await self._broker.run(lambda: self._broker.create_topic(name, partitions, configs, **more))

    async def create_topics(
        self, *names: str, partitions: int | None = None,
        configs: Mapping[str, object] | None = None, **more: object,
    ) -> None:  # fmt: skip
        """Implements `Muster.create_topics` for asyncio."""
        await self._broker.run(
            lambda: self._broker.create_topics(
                *names, partitions=partitions, configs=configs, **more
            )
        )

    async def delete(self, *names: str) -> None:
        """Implements `Muster.delete` for asyncio."""
        await self._broker.run(lambda: self._broker.delete(*names))

    def rebalance(self, group: str) -> Begun[AsyncFault]:
        """Implements `Muster.rebalance` for asyncio."""
        return self._fault(lambda: self._broker.rebalance(group))

    def expire(self, member: str, group: str | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.expire` for asyncio."""
        return self._fault(lambda: self._broker.expire(member, group))

    def fence(self, instance_id: str, group: str | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.fence` for asyncio."""
        return self._fault(lambda: self._broker.fence(instance_id, group))

    def move_coordinator(self, group: str) -> Begun[AsyncFault]:
        """Implements `Muster.move_coordinator` for asyncio."""
        return self._fault(lambda: self._broker.move_coordinator(group))

    def loading(self, group: str, seconds: float | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.loading` for asyncio."""
        return self._fault(lambda: self._broker.loading(group, seconds))

    def fail(
        self, api: str, error: str, *, times: int | None = None, group: str | None = None,
        topic: str | None = None, client_id: str | None = None,
    ) -> Begun[AsyncFault]:  # fmt: skip
        """Implements `Muster.fail` for asyncio."""
        return self._fault(
            lambda: self._broker.fail(
                api, error, times=times, group=group, topic=topic, client_id=client_id
            )
        )

    def delay(
        self, api: str | None = None, ms: int = 1000, *, times: int | None = None,
        group: str | None = None, topic: str | None = None, client_id: str | None = None,
    ) -> Begun[AsyncFault]:  # fmt: skip
        """Implements `Muster.delay` for asyncio."""
        return self._fault(
            lambda: self._broker.delay(
                api, ms, times=times, group=group, topic=topic, client_id=client_id
            )
        )

    def stop_answering(self, client_id: str | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.stop_answering` for asyncio."""
        return self._fault(lambda: self._broker.stop_answering(client_id))

    def disk_full(self) -> Begun[AsyncFault]:
        """Implements `Muster.disk_full` for asyncio."""
        return self._fault(self._broker.disk_full)

    def fail_fsync(self, times: int | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.fail_fsync` for asyncio."""
        return self._fault(lambda: self._broker.fail_fsync(times))

    def disconnect(self, client_id: str | None = None) -> Begun[AsyncFault]:
        """Implements `Muster.disconnect` for asyncio."""
        return self._fault(lambda: self._broker.disconnect(client_id))

    async def groups(self) -> list[Group]:
        """Implements `Muster.groups` for asyncio."""
        return await self._broker.run(self._broker.groups)

    async def group(self, group: str) -> Group | None:
        """Implements `Muster.group` for asyncio."""
        return await self._broker.run(lambda: self._broker.group(group))

    async def members(self, group: str) -> list[Member]:
        """Implements `Muster.members` for asyncio."""
        return await self._broker.run(lambda: self._broker.members(group))

    async def committed(self, group: str) -> Committed:
        """Implements `Muster.committed` for asyncio."""
        return await self._broker.run(lambda: self._broker.committed(group))

    async def journal(self, group: str) -> list[JournalEvent]:
        """Implements `Muster.journal` for asyncio."""
        return await self._broker.run(lambda: self._broker.journal(group))

    async def requests(
        self, *, client_id: str | None = None, api: str | None = None
    ) -> list[SeenRequest]:
        """Implements `Muster.requests` for asyncio."""
        return await self._broker.run(lambda: self._broker.requests(client_id=client_id, api=api))

    async def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Implements `Muster.records` for asyncio."""
        return await self._broker.run(lambda: self._broker.records(topic, partition))

    def wait_for(self, group: str, timeout_s: float = 10.0) -> AsyncWaiting:
        """Implements `Muster.wait_for` for asyncio."""
        return AsyncWaiting(self._broker, group, timeout_s)

    def _fault(self, begin: Callable[[], Fault]) -> Begun[AsyncFault]:
        async def fault() -> AsyncFault:
            return AsyncFault(self._broker, await self._broker.run(begin))

        return Begun(fault)

    def __repr__(self) -> str:
        return repr(self._broker).replace("Underneath", "AsyncMuster")
