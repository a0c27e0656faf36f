"""Whole brokers that start again: nobody reaches one before it can answer."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from protocol.znodes import brokers
from tests.broker.cluster.members import members
from tests.broker.serving import eventually
from tests.brokers import free_port
from tests.simulated_zookeeper import SimulatedZooKeeper


async def test_connections_are_refused_until_the_session_before_is_over(tmp_path: Path) -> None:
    """A client that could connect would wait for ApiVersions in vain, and then take the broker for
    one of Kafka 0.9."""
    async with members(tmp_path) as there:
        await there.stop(3)
        before = SimulatedZooKeeper(there.ensemble)
        await before.create(brokers.path(3), b"{}", ephemeral=True)
        port = free_port()
        with capture_logs() as lines:
            starting = asyncio.ensure_future(there.start(3, port))
            await eventually(
                "the node is waited for",
                lambda: any("another session" in each["event"] for each in lines),
            )
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        assert not starting.done()
        there.ensemble.end_session(before.session)
        await starting
        socket.create_connection(("127.0.0.1", port), 5).close()
        await there.settled()
