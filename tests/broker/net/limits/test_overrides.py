"""``max.connections.per.ip.overrides``: which addresses an override limits, and when its host names
are resolved."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.config.config import BadConfig, Config
from broker.loop.background import Background
from broker.loop.watchdog import Watchdog
from broker.net.limits import overrides
from broker.net.limits.overrides import Overrides
from broker.time import Time
from protocol.errors import INVALID_REQUEST, NONE
from tests.broker.cluster.members import members
from tests.broker.config_calls import BROKER, DELETE, SET, alter
from tests.broker.edge import Client
from tests.broker.serving import asked, eventually, serving

NAME = "max.connections.per.ip.overrides"
BOUND = "max.connections.per.ip"


class Names:
    """A resolver with fixed host names that records its lookups."""

    def __init__(self) -> None:
        self.known = {"here.example": ["127.0.0.1"], "both.example": ["10.0.0.1", "fd00::1"]}
        self.asked: list[str] = []
        self.asked_on_the_loop = 0

    def addresses(self, name: str) -> list[str]:
        self.asked.append(name)
        if threading.current_thread() is threading.main_thread():
            self.asked_on_the_loop += 1
        if name not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.known[name]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    known = Names()
    monkeypatch.setattr(overrides, "_addresses", known.addresses)
    return known


def opened(text: str) -> Overrides:
    made = Overrides(Config({NAME: text}), Time())
    made.open()
    return made


async def altered(broker: Broker, value: str | None, name: str = NAME) -> tuple[int, str | None]:
    await eventually("others are gone", lambda: not broker.server.connections)
    change = (name, DELETE if value is None else SET, value)
    return await asked(broker, lambda wire: alter(wire, "1", change, kind=BROKER))


async def are_served(broker: Broker, count: int) -> list[bool]:
    """Opens ``count`` connections from 127.0.0.1 and returns for each whether the broker serves
    it."""
    await eventually("others are gone", lambda: not broker.server.connections)
    port = broker.sockets.addresses()[0][1]
    clients = [await Client.connect(port) for _ in range(count)]
    answers = []
    for client in clients:
        client.send(18, 0)
        try:
            answers.append(bool(await asyncio.wait_for(client.receive_raw(), 20)))
        except (EOFError, ConnectionError):
            answers.append(False)
    for client in clients:
        client.close()
    return answers


@pytest.mark.parametrize(
    ("text", "by_address"),
    [
        ("127.0.0.1:1", {"127.0.0.1": 1}),
        ("[::1]:2, 10.0.0.1:3,", {"0:0:0:0:0:0:0:1": 2, "10.0.0.1": 3}),
        ("fd00:0::00a:4", {"fd00:0:0:0:0:0:0:a": 4}),
        ("::ffff:10.0.0.9:5", {"10.0.0.9": 5}),
        ("here.example:0", {"127.0.0.1": 0}),
        ("both.example:7", {"10.0.0.1": 7, "fd00:0:0:0:0:0:0:1": 7}),
        ("both.example:7,10.0.0.1:8", {"10.0.0.1": 8, "fd00:0:0:0:0:0:0:1": 7}),
    ],
)
def test_override_addresses_are_normalized_like_the_addresses_of_connections(
    names: Names, text: str, by_address: dict[str, int]
) -> None:
    assert opened(text).by_address == by_address


def test_host_names_in_overrides_of_the_connection_limit_are_resolved_to_addresses() -> None:
    assert opened("localhost:3").by_address.keys() & {"127.0.0.1", "0:0:0:0:0:0:0:1"}


def test_start_fails_when_an_override_has_an_unknown_host_name(
    tmp_path: Path, names: Names
) -> None:
    settings = {"log.dirs": str(tmp_path / "data"), NAME: "10.0.0.1:1,nobody.example:1"}
    broker = Broker(Config(settings | {"listeners": "PLAINTEXT://127.0.0.1:0"}))

    with pytest.raises(BadConfig) as refused:
        broker.open()
    broker.release()

    assert str(refused.value) == (
        f"{NAME}=10.0.0.1:1,nobody.example:1: nobody.example can't be resolved: Name or service"
        " not known"
    )
    assert not (tmp_path / "data").exists(), "its data are not touched"


async def test_override_by_host_name_limits_the_addresses_of_the_host(
    tmp_path: Path, names: Names
) -> None:
    async with serving(tmp_path, {NAME: "here.example:2"}) as broker:
        assert await are_served(broker, 3) == [True, True, False]


async def test_host_name_in_an_altered_override_is_resolved_outside_the_event_loop(
    tmp_path: Path, names: Names
) -> None:
    async with serving(tmp_path) as broker:
        assert await altered(broker, "here.example:1") == (NONE, None)
        assert await are_served(broker, 2) == [True, False]
        names.known["here.example"] = ["10.0.0.1"]
        assert await altered(broker, "500", "max.connections") == (NONE, None)
        assert names.asked == ["here.example"], "it has not changed"
        assert await are_served(broker, 2) == [True, False]
        code, message = await altered(broker, "nobody.example:1")
        assert code == INVALID_REQUEST
        assert "nobody.example can't be resolved" in (message or "")
        assert await are_served(broker, 2) == [True, False]
        assert await altered(broker, None) == (NONE, None)
        assert await are_served(broker, 2) == [True, True]
    assert names.asked_on_the_loop == 0


async def test_changed_host_name_of_a_connection_limit_is_resolved_on_sighup(
    tmp_path: Path, names: Names
) -> None:
    async with serving(tmp_path) as broker:
        given = dict(broker.config.given)
        await broker.reload(Config({**given, NAME: "here.example:1"}))
        assert await are_served(broker, 2) == [True, False]
        with capture_logs() as lines:
            await broker.reload(Config({**given, NAME: "nobody.example:1"}))
        assert await are_served(broker, 2) == [True, False]
    assert "nobody.example can't be resolved" in str(lines)


async def test_host_names_in_altered_connection_limits_are_resolved_again_at_the_next_start(
    tmp_path: Path, names: Names
) -> None:
    async with serving(tmp_path) as broker:
        assert await altered(broker, "here.example:1,both.example:5") == (NONE, None)
    del names.known["both.example"]
    with capture_logs() as lines:
        async with serving(tmp_path) as broker:
            assert await are_served(broker, 2) == [True, False]
    (line,) = [line for line in lines if "host name can't be resolved" in line["event"]]
    assert line["host"] == "both.example"


async def test_host_name_is_resolved_when_another_broker_alters_the_connection_limit(
    names: Names,
) -> None:
    config = Config({BOUND: "5"})
    followed = Overrides(config, Time())
    followed.open()
    background = Background(Time(), Watchdog(Time()))

    config.adopt(config.with_dynamic({NAME: "here.example:1"}, {}))
    followed.follow(background)
    followed.follow(background)
    await eventually("it is known", lambda: followed.by_address == {"127.0.0.1": 1})

    config.adopt(config.with_dynamic({}, {}))
    followed.follow(background)
    await eventually("it is over", lambda: not followed.by_address)
    await background.stop()
    assert names.asked == ["here.example"]
    assert names.asked_on_the_loop == 0


async def test_connection_limit_altered_for_all_brokers_applies_on_every_broker(
    tmp_path: Path, names: Names
) -> None:
    async with members(tmp_path) as cluster:
        first, *others = cluster.brokers.values()
        change = NAME, SET, "both.example:9"
        assert await asked(first, lambda wire: alter(wire, "", change, kind=BROKER)) == (NONE, None)
        servers = [other.server for other in others]
        await eventually(
            "they follow it",
            lambda: all(
                each.limits.connections_per_ip_overrides.get("10.0.0.1") == 9 for each in servers
            ),
        )
    assert names.asked_on_the_loop == 0


async def test_max_connections_per_ip_0_is_refused_when_overrides_are_not_set(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadConfig, match=f"{BOUND}=0 without {NAME} rejects every connection"):
        Config({BOUND: "0"})
    async with serving(tmp_path) as broker:
        code, message = await altered(broker, "0", BOUND)
        assert (code, f"{BOUND}=0 without" in (message or "")) == (INVALID_REQUEST, True)
        both = (BOUND, SET, "0"), (NAME, SET, "127.0.0.1:5")
        done = await asked(broker, lambda wire: alter(wire, "1", *both, kind=BROKER))
        assert done == (NONE, None)
        assert (await altered(broker, None))[0] == INVALID_REQUEST
    with capture_logs() as lines:
        async with serving(tmp_path) as broker:
            assert broker.config[BOUND] == 0
    assert "left out" not in str(lines), "the first fits beside the second alone"
