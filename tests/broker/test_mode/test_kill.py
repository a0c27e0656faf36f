"""After a kill, the next start finds all acknowledged data, and the killed broker does no work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from broker.test_mode.run import drop_lines_of_the_dead
from tests.broker.test_mode.in_process import asked, running
from tests.broker.topic_calls import commit, committed, create_topic, fetch, produce
from tests.tested import Tested, tested
from tests.waiting import until
from tests.wire import Wire, batch, values_of


class Writer:
    """Produces increasing numbers and commits them as offsets, until the connection closes."""

    def __init__(self, port: int, first: int) -> None:
        self.produced = self.committed = first - 1
        """``produced`` is the number in the last acknowledged record. ``committed`` is the last
        acknowledged committed offset."""
        self._port, self._first = port, first
        self.enough = threading.Event()
        """An event that is set when the broker has acknowledged 20 numbers."""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            with Wire(self._port) as wire:
                for number in range(self._first, 1_000_000):
                    answer = produce(wire, "t", batch(b"%d" % number))
                    if answer["error_code"]:
                        return
                    self.produced = number
                    if commit(wire, number):
                        return
                    self.committed = number
                    if number > self._first + 20:
                        self.enough.set()
        except OSError:
            return


@pytest.fixture(params=["memory", "directory"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tested]:
    words = [] if request.param == "memory" else ["--data", str(tmp_path / "data")]
    with tested(*words) as started:
        yield started


def test_acknowledged_data_survive_a_kill(either: Tested) -> None:
    with Wire(either.port) as wire:
        until(
            "there is a coordinator",
            lambda: not wire.call("FindCoordinator", 2, {"key": "g"})["error_code"],
        )
        create_topic(wire, "t")
    last = -1
    for _ in range(8):
        writer = Writer(either.port, last + 1)
        assert writer.enough.wait(30)
        either.post("/kill")
        writer.thread.join(30)
        either.post("/start")
        with Wire(either.port) as wire:
            offset = until("it is loaded", lambda: committed(wire) + 1, tolerate=IndexError) - 1
            values = values_of(fetch(wire, "t", max_bytes=1 << 24)["records"])
        assert offset in (writer.committed, writer.committed + 1)
        assert values == [b"%d" % number for number in range(len(values))]
        assert len(values) - 1 in (writer.produced, writer.produced + 1)
        last = len(values) - 1
    assert "[critical" not in either.stderr()


async def test_killed_broker_leaves_no_tasks_and_no_connections() -> None:
    async with running() as tested:
        first = tested.run
        await asked(tested, lambda wire: create_topic(wire, "t"))
        await tested.kill()

        assert not first.tasks
        assert not first.broker.server.connections
        with pytest.raises(OSError, match="killed"):
            first.files.open("/data/t-0/more", create=True)


async def test_log_lines_of_a_killed_broker_are_dropped() -> None:
    async with running() as tested:
        run = tested.run
        event = {"event": "it dies"}
        logged = []
        logged.append(run.context.run(drop_lines_of_the_dead, None, "error", event))
        await tested.reset()
        with pytest.raises(structlog.DropEvent):
            run.context.run(drop_lines_of_the_dead, None, "error", event)
        logged.append(tested.run.context.run(drop_lines_of_the_dead, None, "error", event))
        assert logged == [event, event]
