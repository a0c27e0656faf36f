"""A broker in test mode that failed reports the reason. After a reset or a start, the broker works
again."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from broker.test_mode.refusals import NotNow
from broker.test_mode.tested_broker import TestedBroker
from protocol.errors import KAFKA_STORAGE_ERROR
from tests.broker.edge import eventually
from tests.broker.test_mode.in_process import asked, running
from tests.broker.topic_calls import create_topic, fetch, produce
from tests.wire import Wire, batch, values_of


def fill(wire: Wire) -> None:
    create_topic(wire, "t", configs={"flush.messages": "1"})
    produce(wire, "t", batch(b"one"))


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


async def fail(tested: TestedBroker) -> None:
    """Makes an fsync of the test broker fail, and waits until the broker has stopped."""
    await asked(tested, fill)
    tested.disk.faults.fail_fsync()
    answer = await asked(tested, lambda wire: produce(wire, "t", batch(b"lost")))
    assert answer["error_code"] == KAFKA_STORAGE_ERROR
    await eventually(lambda: not tested.is_running)


async def test_failed_broker_reports_the_reason_and_refuses_connections() -> None:
    async with running() as tested:
        await fail(tested)

        with pytest.raises(NotNow, match=r"the broker has failed: .*t-0.*; POST /test/reset"):
            _ = tested.broker
        await eventually(lambda: refuses(tested.addresses.listeners[0].port))


async def test_reset_of_a_failed_broker_starts_an_empty_broker() -> None:
    async with running() as tested:
        await fail(tested)

        await tested.reset()

        await asked(tested, fill)
        assert tested.broker.fatal is None


async def test_start_of_a_failed_broker_keeps_its_data(tmp_path: Path) -> None:
    async with running(str(tmp_path / "data")) as tested:
        await fail(tested)
        tested.disk.faults.end_all()

        await tested.start()

        found = await asked(tested, lambda wire: values_of(fetch(wire, "t")["records"]))
        assert found[0] == b"one"


async def test_failed_start_of_a_test_broker_reports_the_reason(tmp_path: Path) -> None:
    async with running(str(tmp_path / "data")) as tested:
        await tested.stop()
        (tmp_path / "data" / "meta.properties").write_text("version=9\n")

        with pytest.raises(Exception, match=re.escape("meta.properties")):
            await tested.start()

        with pytest.raises(NotNow, match=r"the broker has failed: .*meta.properties"):
            _ = tested.broker
        assert not tested.is_running
        await tested.reset()
        assert tested.is_running
