"""Authentication over HTTP: only health probes allow anonymous access, and the rate of password
guesses is limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from broker.authentication import guesses
from broker.authentication.logins import Logins
from broker.authentication.users import Users
from broker.authorizer.authorizer import AllowsAll
from broker.config.config import Config
from broker.config.http_settings import BASIC
from broker.time import Time
from broker.web.readers import authentication as http_authentication
from broker.web.readers.authentication import Authenticated, HttpAccess
from broker.web.readers.users import ListenerUsers, plain_users, scram_users
from security.credentials import ScramMechanism, credential
from security.principal import user
from tests.broker.authentication.letting_in import add_scram_user
from tests.broker.mock_time import MockTime
from tests.broker.seen import Scrape
from tests.broker.web.rights import CLUSTER, JAAS, PASSWORDS, TOKEN, basic, securely

PATHS = [
    "/", "/page/app.js", "/metrics", "/runbooks", "/api/groups", "/api/groups/g", "/api/topics",
    "/api/topics/t", "/api/topics/t/0/record?offset=0", "/api/transactions", "/api/held",
    "/api/broker", "/api/clients", "/api/cluster", "/api/offsets/expiring", "/api/live", "/nothing",
]  # fmt: skip
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WRONG_TOKEN = {"Authorization": f"Bearer {TOKEN}x"}


async def test_unauthenticated_request_is_refused_with_a_challenge(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        for path in PATHS:
            answer = await seen.get(path)
            assert answer.status_code == 401, path
            assert set(answer.json()) == {"error"}
            challenges = answer.headers["www-authenticate"]
            assert challenges.startswith('Basic realm="Muster", charset="UTF-8"')
            assert ("Bearer" in challenges) is (path == "/metrics")


async def test_health_probe_without_authentication_returns_only_the_state(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        [partition] = seen.broker.logs.topics["orders"].partitions[:1]
        partition.log.poisoned = "the disk is full"

        strange = await seen.get("/healthz")
        known = await seen.as_("alice", "/healthz")

        assert (strange.status_code, strange.json()) == (503, {"state": "poisoned"})
        assert "the disk is full" in known.json()["reason"]
        assert (await seen.get("/readyz")).json() == {"ready": True}
        assert (await seen.get("/livez")).json() == {"live": True}
        partition.log.poisoned = None


async def test_metrics_token_allows_only_the_metrics_path(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        scrape = await seen.get("/metrics", BEARER)
        assert scrape.status_code == 200
        assert "kafka_topic_partitions" in scrape.text
        assert (await seen.get("/api/topics", BEARER)).status_code == 403
        wrong = await seen.get("/metrics", WRONG_TOKEN)
        assert wrong.status_code == 401
        assert TOKEN not in wrong.text


NOBODYS = [
    basic("alice", "another"),
    basic("alice", ""),
    basic("mallory", "alice-secret"),
    basic("", ""),
    {"Authorization": "Basic"},
    {"Authorization": "Basic not base64!"},
    {"Authorization": "Basic YWxpY2U="},  # The credentials have no colon.
    {"Authorization": "Negotiate abc"},
    {"Authorization": ""},
]


async def test_wrong_http_credentials_are_refused(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        for given in NOBODYS:
            answer = await seen.get("/api/topics", given)
            assert answer.status_code == 401, given
            assert "secret" not in answer.text
        told = (await seen.get("/api/topics", {"Authorization": "Negotiate abc"})).json()
        assert told == {"error": "the scheme of the Authorization header is not supported"}


async def test_every_listener_user_can_read_all_topics_over_http_without_an_authorizer(
    tmp_path: Path,
) -> None:
    async with securely(tmp_path) as seen:
        seen.broker.secured.authorizer = AllowsAll()
        for who in PASSWORDS:
            rows = (await seen.json(who, "/api/topics"))["topics"]
            assert "orders" in {row["topic"] for row in rows}


def test_http_users_are_the_sasl_plain_users_of_every_listener() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = Config(
        {
            "listeners": "A://127.0.0.1:1,B://127.0.0.1:2,C://127.0.0.1:3",
            "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT,C:PLAINTEXT",
            "inter.broker.listener.name": "C",
            "listener.name.a.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.b.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.a.plain.sasl.jaas.config": f'{module} user_alice="hers";',
            "plain.sasl.jaas.config": f'{module} user_bob="his";',
        }
    )
    assert list(plain_users(config)) == [{"alice": "hers"}]


async def test_scram_users_are_accepted_over_http(tmp_path: Path) -> None:
    async with securely(tmp_path) as seen:
        assert seen.broker.secured.users is not None
        await add_scram_user(seen.broker.secured.users, "carol", "hers", "SCRAM-SHA-256")
        await add_scram_user(seen.broker.secured.users, "dave", "his", "SCRAM-SHA-512")
        assert (await seen.get("/api/topics", basic("carol", "hers"))).status_code == 200
        assert (await seen.get("/api/topics", basic("carol", "his"))).status_code == 401
        no_listener = await seen.get("/api/topics", basic("dave", "his"))
        assert no_listener.status_code == 401, "SCRAM-SHA-512 is taken nowhere"


@pytest.mark.campaign
async def test_http_password_guesses_are_bounded_and_logged_without_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "WAIT_MS_MAX", 0)
    monkeypatch.setattr(guesses, "TURN_MS", 60_000)  # Failures do not expire in this test.
    structlog.reset_defaults()
    with capture_logs() as lines:
        async with securely(tmp_path, {"connection.failed.authentication.delay.ms": 0}) as seen:
            assert (await seen.as_("bob", "/api/topics")).status_code == 200
            assert (await seen.get("/metrics", BEARER)).status_code == 200
            tries = [
                seen.get("/api/topics", basic("alice", f"guess-{each}"))
                for each in range(guesses.FAILURES_AT_ONCE + 20)
            ]
            statuses = [each.status_code for each in await asyncio.gather(*tries)]
            assert statuses.count(401) >= guesses.FAILURES_AT_ONCE
            assert statuses.count(429) > 0
            assert set(statuses) == {401, 429}
            assert (await seen.as_("alice", "/api/topics")).status_code == 429
            assert (await seen.as_("bob", "/api/topics")).status_code == 200, (
                "another name is not held back"
            )
            assert (await seen.get("/metrics", BEARER)).status_code == 200
            failures = statuses.count(401)
            scrape = Scrape((await seen.get("/metrics", BEARER)).text)
            labels = ("listener=http", "mechanism=basic")
            counted = "muster_authentication_total"
            assert scrape[counted, *labels, "result=failure"] == failures
            assert scrape[counted, *labels, "result=success"] == 1
    [told] = [line for line in lines if line["event"] == "HTTP authentication failed"]
    assert told["user"] == "alice"
    assert "guess-" not in str(lines)


@pytest.mark.campaign
async def test_metrics_token_guesses_do_not_delay_a_recently_authenticated_scraper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "WAIT_MS_MAX", 0)
    monkeypatch.setattr(guesses, "TURN_MS", 60_000)  # Failures do not expire in this test.
    async with securely(tmp_path, {"connection.failed.authentication.delay.ms": 0}) as seen:
        for _ in range(guesses.FAILURES_AT_ONCE):
            assert (await seen.get("/metrics", BEARER)).status_code == 200
            assert (await seen.get("/metrics", WRONG_TOKEN)).status_code == 401
        tries = [seen.get("/metrics", WRONG_TOKEN) for _ in range(20)]
        statuses = {each.status_code for each in await asyncio.gather(*tries)}
        assert statuses == {401, 429}
        assert (await seen.get("/metrics", BEARER)).status_code == 200
        monkeypatch.setattr(http_authentication, "_KNOWN_S", 0.0)
        late = await seen.get("/metrics", BEARER)
        assert late.status_code == 429, "else guessing would be as fast as connections open"


class Reached:
    """An application that records the requests that pass the authentication."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.hosts.append(scope["client"][0])


class Still(MockTime):
    """A clock that does not advance. Failed logins do not expire, and delays do not end."""

    async def sleep(self, seconds: float) -> None:
        if seconds:
            await asyncio.get_running_loop().create_future()


class Door:
    """The middleware `Authenticated` in front of an application that records the requests that
    pass."""

    def __init__(self) -> None:
        time = Still()
        self.logins = Logins(time)
        users = ListenerUsers([PASSWORDS], lambda name: {}, time)
        access = HttpAccess(frozenset([BASIC]), TOKEN, users, lambda: None, 0, self.logins)
        self.inner = Reached()
        self.refused: list[int] = []
        self._authenticated = Authenticated(self.inner, access, time)
        self._now_ms = time.now().mono_ms

    async def ask(self, host: str, given: dict[str, str]) -> None:
        headers = [(b"authorization", each.encode()) for each in given.values()]
        scope = {"type": "http", "client": (host, 1), "path": "/metrics", "headers": headers}

        async def send(message: Any) -> None:
            if "status" in message:
                self.refused.append(message["status"])

        async def receive() -> Any:
            raise AssertionError

        await self._authenticated(scope, receive, send)

    def has_guessed(self, host: str, times: int, name: str = "alice") -> None:
        for _ in range(times):
            self.logins.guesses.judged(host, name, self._now_ms, is_right=False)


async def test_correct_password_is_delayed_after_guesses_from_the_same_address() -> None:
    """A response without delay would reveal that a guess is correct. All readers behind one proxy
    have the same address."""
    door = Door()
    for host in ("10.0.0.1", "10.0.0.2"):
        await door.ask(host, basic("alice"))
        door.has_guessed(host, 1000)
        await door.ask(host, basic("alice"))
        await door.ask(host, basic("bob"))
    assert door.inner.hosts == ["10.0.0.1"] * 2 + ["10.0.0.2"] * 2
    assert door.refused == [429] * 2


async def test_password_guesses_do_not_delay_other_users_and_addresses() -> None:
    door = Door()
    guessing = []
    wrong = basic("alice", "x")
    for host, given in (("10.0.0.1", wrong), ("10.0.0.2", wrong), ("10.0.0.4", WRONG_TOKEN)):
        name = http_authentication._TOKENS_NAME if given is WRONG_TOKEN else "alice"
        door.has_guessed(host, guesses.FAILURES_AT_ONCE + 1, name)
        guessing += [asyncio.create_task(door.ask(host, given)) for _ in range(40)]
    await asyncio.sleep(0)
    await door.ask("10.0.0.3", basic("bob"))
    await door.ask("10.0.0.1", basic("bob"))
    assert door.inner.hosts == ["10.0.0.3", "10.0.0.1"]
    assert set(door.refused) == {429}
    waiting = [task for task in guessing if not task.done()]
    assert 0 < len(waiting) < 30, "each has a connection, and there are 128"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def scram_of(password: str) -> Any:
    """Returns the stored SCRAM credentials of a user with this password."""
    mechanism = ScramMechanism.SHA_512
    salted = mechanism.salted_password(password.encode(), b"salt", 4096)
    return {mechanism: credential(mechanism, salted, b"salt", 4096)}


async def test_scram_password_is_hashed_once_per_30_seconds() -> None:
    known = {"alice": scram_of("pä ss")}
    hashed: list[str] = []
    clock = [0.0]

    class Counting(Time):
        async def in_thread(self, work: Any, *args: Any) -> Any:
            hashed.append(args[-1].decode())
            return work(*args)

    time = Counting(monotonic_s=lambda: clock[0])
    users = ListenerUsers([], lambda name: known.get(name, {}), time)

    assert await users.check("alice", "pä ss") == user("alice")
    assert await users.check("alice", "pä ss") == user("alice")
    assert hashed == ["pä ss"]
    assert await users.check("alice", "pass") is None
    assert await users.check("bob", "pä ss") is None
    clock[0] = 31.0
    assert await users.check("alice", "pä ss") == user("alice")
    assert hashed == ["pä ss", "pass", "pä ss"]


async def test_cached_password_is_dropped_when_its_user_is_changed_or_removed() -> None:
    known = {"alice": scram_of("first")}
    users = ListenerUsers([], lambda name: known.get(name, {}), Time())

    assert await users.check("alice", "first") == user("alice")
    known["alice"] = scram_of("second")
    assert await users.check("alice", "first") is None
    assert await users.check("alice", "second") == user("alice")
    del known["alice"]
    assert users.remembered("alice", "second") is None
    assert await users.check("alice", "second") is None


async def test_password_of_an_unknown_user_is_hashed() -> None:
    """Without the hash, the response time would reveal whether a user name exists."""
    known = Users(None, {}, b"")  # type: ignore[arg-type]
    listeners = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": JAAS,
    }
    assert scram_users(Config(listeners), known)("nobody") == {}
    hashed = []

    class Counting(Time):
        async def in_thread(self, work: Any, *args: Any) -> Any:
            hashed.append(args)
            return work(*args)

    of = scram_users(Config({**listeners, "sasl.enabled.mechanisms": "SCRAM-SHA-512"}), known)
    users = ListenerUsers([], of, Counting())
    for password in ("", "\0", "x"):
        assert await users.check("nobody", password) is None
    assert len(hashed) == 3


async def test_event_stream_ends_when_the_password_of_its_reader_becomes_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.web.live.events.STANDS_S", 0.05)
    monkeypatch.setattr("broker.web.live.events.PING_S", 0.05)
    async with securely(tmp_path) as seen:
        seen.rights.give("alice", [CLUSTER])
        gone = False

        async def check(users: ListenerUsers, name: str, password: str) -> Any:
            return None if gone else user(name)

        monkeypatch.setattr(ListenerUsers, "check", check)
        url = f"http://{seen.address}/api/live?watch=topics"
        async with (
            httpx.AsyncClient() as client,
            client.stream("GET", url, headers=basic("alice"), timeout=30) as answer,
        ):
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            await anext(lines)
            gone = True
            async for _ in lines:
                pass  # The broker ends the stream.
        assert seen.broker.pages is not None
        assert seen.broker.pages.live.clients == 0
