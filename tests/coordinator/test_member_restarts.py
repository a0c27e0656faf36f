"""Tests how the journal recognizes restarted clients. Also tests how the journal describes a member
for which a rebalance waits, such as SILENT or CLOSED."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from coordinator.calls import LeaveGroup, Leaver
from coordinator.classic.heartbeats import Sign, awaited, is_heard, phase_end_ms, state_since_ms
from coordinator.classic.member_restarts import (
    CLIENTS_KEPT,
    RETURNS_WITHIN_MS,
    STREAK_PAUSE_MS,
    TIMES_KEPT,
    Client,
    MemberRestarts,
    SameClient,
    Streak,
    Way,
)
from coordinator.events import Cause
from journal.pages import Bytes, Ring
from protocol.now import Now
from tests.coordinator.calls_for_tests import Driver, commit, heartbeat, join, sync
from tests.coordinator.test_journal import JournaledShard, size_of

HOST = "/10.0.0.1"
SESSION_MS = 10_000


def at(milliseconds: int) -> Now:
    return Now(milliseconds, 1_000_000 + milliseconds)


def test_client_that_left_and_rejoined_with_a_new_member_id_has_restarted() -> None:
    returns = MemberRestarts()
    assert returns.joined(Client("app", HOST), "app-1", at(0)) is None
    assert returns.left(Client("app", HOST), "app-1", -1, Way.LEFT, at(1000)) is None
    same = returns.joined(Client("app", HOST), "app-2", at(4200))
    assert same == SameClient(
        "app-1", "the same client rejoined with a new member id, 3.2 s after app-1 had left"
    )
    (client,) = returns.clients
    assert (client.client_id, client.client_host, client.times) == ("app", HOST, 1)
    assert (client.before, client.member_id, client.away_ms) == ("app-1", "app-2", 3200)
    assert (client.last_ms, client.recent_ms) == (1_004_200, [1_004_200])


@pytest.mark.parametrize(
    ("client", "host", "back_ms"),
    [
        ("other", HOST, 2000),
        ("app", "/10.0.0.2", 2000),
        ("app", HOST, 1000 + RETURNS_WITHIN_MS + 1),
    ],
)
def test_join_of_another_client_or_host_or_after_a_long_time_is_not_a_restart(
    client: str, host: str, back_ms: int
) -> None:
    returns = MemberRestarts()
    returns.left(Client("app", HOST), "app-1", -1, Way.LEFT, at(1000))
    assert returns.joined(Client(client, host), "app-2", at(back_ms)) is None
    assert not returns.clients


def test_each_former_member_id_is_counted_in_only_one_restart() -> None:
    """One of two consumers with the same client id restarts."""
    returns = MemberRestarts()
    returns.joined(Client("app", HOST), "app-1", at(0))
    returns.joined(Client("app", HOST), "app-2", at(0))
    returns.left(Client("app", HOST), "app-1", -1, Way.LEFT, at(1000))
    assert returns.joined(Client("app", HOST), "app-3", at(2000)) is not None
    assert returns.joined(Client("app", HOST), "app-4", at(2000)) is None


def test_killed_client_that_rejoined_before_its_session_expired_counts_as_restarted() -> None:
    returns = MemberRestarts()
    returns.joined(Client("app", HOST), "app-1", at(0))
    assert returns.joined(Client("app", HOST), "app-2", at(7000)) is None, "nobody knows yet"
    same = returns.left(Client("app", HOST), "app-1", SESSION_MS, Way.RESTARTED, at(15_000))
    assert same == SameClient(
        "app-2", "the same client had already rejoined with a new member id, app-2"
    )
    (client,) = returns.clients
    assert (client.before, client.member_id, client.away_ms) == ("app-1", "app-2", 2000)


def test_join_is_not_a_restart_when_the_old_member_id_still_sends_heartbeats() -> None:
    returns = MemberRestarts()
    returns.joined(Client("app", HOST), "app-1", at(0))
    returns.joined(Client("app", HOST), "app-2", at(2000))
    assert returns.left(Client("app", HOST), "app-1", SESSION_MS, Way.RESTARTED, at(15_000)) is None
    assert returns.left(Client("app", HOST), "app-2", -1, Way.LEFT, at(16_000)) is None
    assert not returns.clients


def test_journal_keeps_a_bounded_number_of_restarted_clients_and_counts_their_bytes() -> None:
    counted = Bytes()
    returns = MemberRestarts(partial(Ring, counted=counted))
    for number in range(3000):
        client = f"app-{number % 1000}"
        returns.left(Client(client, HOST), f"{client}-{number}", -1, Way.LEFT, at(10 * number))
        if number % 3:
            returns.joined(Client(client, HOST), f"{client}-{number}-again", at(10 * number + 5))
        gone = f"busy-{number - 1}-again" if number else "busy"
        returns.left(Client("busy", HOST), gone, -1, Way.LEFT, at(10 * number))
        returns.joined(Client("busy", HOST), f"busy-{number}-again", at(10 * number + 5))
    assert len(returns.clients) == CLIENTS_KEPT
    busy = returns.clients.get("busy-2999-again")
    assert busy is not None
    assert busy.times == 3000
    assert len(busy.recent_ms) == TIMES_KEPT
    assert counted.count == size_of(returns) < 1 << 20


def test_journal_entry_of_a_joined_member_names_its_former_member_id() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app"))
    told.handle(sync("s", "app-a"))
    told.mono_ms += SESSION_MS
    told.take(told.shard.expire(told.now, 100))
    told.mono_ms += 500
    told.handle(join("b", client_id="app"))
    (change,) = told.last.changes
    assert change.same_client is not None
    assert change.same_client.member_id == "app-a"
    (client,) = told.journal.returning("g")
    assert client.times == 1
    assert told.journal.returning("unknown") == []


def test_client_counts_as_restarted_when_its_connection_closed_before_session_expiry() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app", connection="c1"))
    told.handle(sync("s", "app-a", connection="c1"))
    told.take(told.shard.connection_closed("c1", told.now))
    told.pass_time(SESSION_MS)
    told.handle(join("b", client_id="app", connection="c2"))
    (client,) = told.journal.returning("g")
    assert client.ways == {Way.RESTARTED: 1}


@pytest.mark.parametrize(
    ("reason", "way"),
    [("consumer poll timeout has expired.", Way.POLL_TIMED_OUT), (None, Way.LEFT)],
)
def test_client_that_leaves_and_rejoins_on_one_connection_does_not_count_as_restarted(
    reason: str | None, way: Way
) -> None:
    """The Java client sends the leave reason "consumer poll timeout has expired." after
    max.poll.interval.ms. librdkafka sends no reason."""
    told = JournaledShard()
    told.handle(join("0", client_id="app", connection="c1"))
    for number in range(4):
        told.handle(LeaveGroup("bye", "g", [Leaver(f"app-{number}", None, reason)]))
        told.mono_ms += 3000
        told.handle(join(f"{number + 1}", client_id="app", connection="c1"))
    (client,) = told.journal.returning("g")
    assert client.ways == {way: 4}


def test_member_whose_session_expires_on_an_open_connection_did_not_restart() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app", connection="c1"))
    told.handle(sync("s", "app-a", connection="c1"))
    told.pass_time(SESSION_MS)
    told.handle(join("b", client_id="app", connection="c1"))
    (client,) = told.journal.returning("g")
    assert client.ways == {Way.SESSION_EXPIRED: 1}


def test_member_that_heartbeats_but_does_not_sync_does_not_count_as_restarted() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app", connection="c1", rebalance_timeout_ms=9000))
    told.pass_time(9000)
    told.handle(join("b", client_id="app", connection="c1"))
    (client,) = told.journal.returning("g")
    assert client.ways == {Way.SYNC_TIMED_OUT: 1}


def test_member_that_heartbeats_but_does_not_rejoin_did_not_restart() -> None:
    told = JournaledShard()
    (b,) = told.form("b")
    told.handle(join("n", fresh_id="n", client_id="n"))
    for _ in range(10):
        told.pass_time(6_000)
        told.handle(heartbeat("beat", b, told.shard.view.groups["g"].generation_id))
    told.handle(join("back", client_id="m"))
    (client,) = told.journal.returning("g")
    assert client.ways == {Way.JOIN_TIMED_OUT: 1}


def test_causes_of_restarts_are_counted_only_for_the_current_series_of_restarts() -> None:
    returns = MemberRestarts()
    for number, way in enumerate([Way.LEFT, Way.RESTARTED, Way.RESTARTED]):
        at_ms = number * 400_000 if number < 2 else 410_000
        returns.left(Client("app", HOST), f"app-{number}", -1, way, at(at_ms))
        returns.joined(Client("app", HOST), f"app-{number + 1}", at(at_ms))
    (client,) = returns.clients
    assert (client.times, client.ways) == (3, {Way.RESTARTED: 2})


def test_journal_entry_of_an_expired_session_names_the_new_member_id() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app"))
    told.handle(sync("s", "app-a"))
    told.mono_ms += 4000
    told.handle(join("b", client_id="app"))
    told.mono_ms += 6000
    told.take(told.shard.expire(told.now, 100))
    came, gone = told.last.changes
    assert (came.same_client, came.member_id) == (None, "app-b")
    assert gone.same_client == SameClient(
        "app-b", "the same client had already rejoined with a new member id, app-b"
    )


def test_return_of_a_static_member_within_its_session_does_not_count_as_a_restart() -> None:
    told = JournaledShard()
    for number in range(3):
        told.handle(join(f"a{number}", client_id="app", group_instance_id="i"))
        told.pass_time(SESSION_MS - 1)
    assert told.journal.returning("g") == []


def crash_and_return(told: JournaledShard, *numbers: int, after_ms: int = 3000) -> None:
    """Runs several processes of one static member in sequence. Each process crashes 1 s after its
    start, and the next one starts ``after_ms`` later."""
    for number in numbers:
        connection = f"c{number}"
        fields = {"group_instance_id": "i", "client_id": "app", "connection": connection}
        told.handle(join(f"a{number}", **fields))
        generation = told.shard.view.groups["g"].generation_id
        told.handle(sync("s", f"i-a{number}", generation, connection=connection))
        told.pass_time(1000)
        told.take(told.shard.connection_closed(connection, told.now))
        told.pass_time(after_ms)


def test_restarts_of_a_static_member_within_its_session_are_counted_by_instance_id() -> None:
    told = JournaledShard()
    crash_and_return(told, *range(5))
    (client,) = told.journal.returning("g")
    assert (client.instance, client.times) == ("i", 4)
    assert client.ways == {Way.RESTARTED_IN_SESSION: 4}
    assert (client.before, client.member_id, client.away_ms) == ("i-a3", "i-a4", 3000)
    assert len(told.entry.rebalances) == 1, "it kept its partitions"
    returns = told.entry.returns
    assert not returns._seen, "its first id is part of a return"


def test_static_member_restarts_before_and_after_session_expiry_are_counted_together() -> None:
    told = JournaledShard()
    crash_and_return(told, 0, 1)
    crash_and_return(told, 2, after_ms=SESSION_MS)
    crash_and_return(told, 3, 4)
    (client,) = told.journal.returning("g")
    assert client.ways == {Way.RESTARTED_IN_SESSION: 3, Way.RESTARTED: 1}
    assert (client.times, client.first) == (4, "i-a0")


def test_restarts_of_a_static_member_are_counted_per_instance_id_after_its_session_expired() -> (
    None
):
    """The session timeout is 3 s. Each process crashes after its SyncGroup, and the next process
    joins 5 s later."""
    told = JournaledShard(min_session_timeout_ms=1000)
    for number in range(5):
        connection, host = f"c{number}", f"/10.0.0.{number}"
        fields = {"group_instance_id": "i", "session_timeout_ms": 3000, "client_host": host}
        told.handle(join(f"a{number}", connection=connection, **fields))
        told.handle(sync("s", f"i-a{number}", 2 * number + 1, connection=connection))
        told.take(told.shard.connection_closed(connection, told.now))
        told.pass_time(3000)
        told.mono_ms += 2000
    (client,) = told.journal.returning("g")
    assert (client.instance, client.times, client.ways) == ("i", 4, {Way.RESTARTED: 4})
    assert (client.member_id, client.client_host, client.away_ms) == ("i-a4", "/10.0.0.4", 2000)


def test_restarts_of_several_members_with_one_client_id_are_counted_separately() -> None:
    """Six members with one client id restart twice, all at the same time. Then one of the members
    restarts repeatedly."""
    returns, app, ids = (
        MemberRestarts(),
        Client("rdkafka", HOST),
        [f"r-{each}" for each in range(6)],
    )
    for member_id in ids:
        returns.joined(app, member_id, at(0))
    for turn in range(2):
        at_ms = 10_000 * (turn + 1)
        for member_id in ids:
            returns.left(app, member_id, -1, Way.LEFT, at(at_ms))
        ids = [f"{member_id}+" for member_id in ids]
        for member_id in ids:
            returns.joined(app, member_id, at(at_ms + 1000))
    assert [each.times for each in returns.clients] == [2] * 6
    for number in range(3):
        returns.left(app, ids[3], 3000, Way.RESTARTED, at(40_000 + 5000 * number))
        ids[3] += "+"
        returns.joined(app, ids[3], at(41_000 + 5000 * number))
    assert sorted([each.times for each in returns.clients]) == [2] * 5 + [5]


# --------------------------------------------------------------------------- awaited members


def preparing() -> tuple[Driver, str]:
    """Returns a driver and a member id. The group of two members waits for this member to rejoin.
    The member sent a heartbeat 500 ms ago."""
    driver = Driver()
    a, _ = driver.form("a", "b")
    driver.mono_ms += 500
    driver.handle(join("n", fresh_id="n"))
    return driver, a


def test_awaited_member_that_heartbeats_is_shown_as_not_rejoining() -> None:
    driver, a = preparing()
    driver.mono_ms += 2000
    driver.handle(heartbeat("beat", a, 2))
    driver.mono_ms += 1600
    found = awaited(driver.shard.view.groups["g"], a, driver.now)
    assert (found.sign, found.silent_ms) == (Sign.HEARTBEATS, 1600)
    assert found.words == "the member still heartbeats (last 1.6 s ago) but does not rejoin"


def test_awaited_member_is_not_silent_before_its_next_expected_heartbeat() -> None:
    driver, a = preparing()
    driver.mono_ms += 2000
    found = awaited(driver.shard.view.groups["g"], a, driver.now)
    assert (found.sign, found.silent_ms) == (Sign.NOT_DUE, 2500)
    assert found.words == (
        "the last heartbeat was 2.5 s ago; the next may not be due yet; the session expires in"
        " 7.5 s"
    )


def test_silent_awaited_member_is_shown_with_its_last_heartbeat_and_session_expiry() -> None:
    driver, a = preparing()
    driver.mono_ms += 3000
    found = awaited(driver.shard.view.groups["g"], a, driver.now)
    assert (found.sign, found.silent_ms) == (Sign.SILENT, 3500)
    assert found.words == "no heartbeat for 3.5 s; the session expires in 6.5 s"


def test_rebalance_shows_how_long_an_awaited_member_has_sent_no_heartbeat() -> None:
    driver, a = preparing()
    driver.mono_ms += 2000
    driver.handle(heartbeat("beat", a, 2))
    driver.mono_ms += 5001
    found = awaited(driver.shard.view.groups["g"], a, driver.now)
    assert (found.sign, found.silent_ms) == (Sign.SILENT, 5001)
    assert found.words == "no heartbeat for 5.0 s; the session expires in 5.0 s"


def test_join_phase_ends_when_the_session_of_the_only_awaited_member_expires() -> None:
    driver, _ = preparing()
    group = driver.shard.view.groups["g"]
    driver.mono_ms += 2000
    deadline_ms = group.awaited().deadline_ms
    assert deadline_ms is not None
    assert deadline_ms > driver.mono_ms + 7500
    assert phase_end_ms(group, driver.now) == driver.mono_ms + 7500


def test_join_phase_ends_at_its_deadline_even_if_an_awaited_member_heartbeats() -> None:
    driver, a = preparing()
    driver.mono_ms += 2000
    driver.handle(heartbeat("beat", a, 2))
    driver.mono_ms += 1600
    group = driver.shard.view.groups["g"]
    assert phase_end_ms(group, driver.now) == group.awaited().deadline_ms


def test_join_phase_ends_at_its_deadline_when_it_awaits_an_unused_member_id() -> None:
    driver, _ = preparing()
    driver.handle(join("m", member_id_required=True))
    driver.mono_ms += 2000
    group = driver.shard.view.groups["g"]
    assert phase_end_ms(group, driver.now) == group.awaited().deadline_ms


def test_awaited_member_has_sign_new_until_it_joins_and_sign_gone_after_its_removal() -> None:
    driver, _ = preparing()
    driver.handle(join("m", member_id_required=True))
    group = driver.shard.view.groups["g"]
    new = awaited(group, "c-m", driver.now)
    assert (new.sign, new.silent_ms) == (Sign.NEW, None)
    assert new.words == "the member received its id but has not joined with the id yet"
    gone = awaited(group, "nobody", driver.now)
    assert gone == (Sign.GONE, None, "the member is no longer in the group")


def test_awaited_member_is_reported_as_disconnected_when_its_connection_closes() -> None:
    driver, a = preparing()
    driver.mono_ms += 1000
    driver.handle(heartbeat("beat", a, 2, connection="c1"))
    driver.mono_ms += 500
    driver.take(driver.shard.connection_closed("c1", driver.now))
    driver.mono_ms += 2000
    group = driver.shard.view.groups["g"]
    found = awaited(group, a, driver.now)
    assert (found.sign, found.silent_ms) == (Sign.CLOSED, 2500)
    assert found.words == "the connection closed 2.0 s ago; the session expires in 7.5 s"
    assert not is_heard(group, group.members[a], driver.now)


@pytest.mark.parametrize("proof", [heartbeat, commit])
def test_awaited_member_that_reconnected_is_shown_as_sending_heartbeats(
    proof: Any,
) -> None:
    driver, a = preparing()
    driver.handle(heartbeat("beat", a, 2, connection="c1"))
    driver.take(driver.shard.connection_closed("c1", driver.now))
    driver.mono_ms += 500
    driver.handle(proof("again", a, 2))
    assert awaited(driver.shard.view.groups["g"], a, driver.now).sign is Sign.HEARTBEATS


def test_client_that_crashed_during_its_join_and_rejoined_has_restarted() -> None:
    told = JournaledShard()
    told.handle(join("a", client_id="app", connection="c1"))
    told.handle(sync("s", "app-a", connection="c1"))
    told.handle(join("again", "app-a", connection="c1"))
    told.take(told.shard.connection_closed("c1", told.now))
    told.mono_ms += 2000
    told.handle(join("b", client_id="app", connection="c2"))
    told.mono_ms += SESSION_MS
    told.take(told.shard.expire(told.now, 100))
    (client,) = told.journal.returning("g")
    assert (client.times, client.away_ms) == (1, 2000)


def test_journal_entry_of_an_expired_session_names_the_closed_connection_and_parked_request() -> (
    None
):
    told = JournaledShard()
    a, b = told.form("a", "b")
    told.handle(join("again", a, connection="c1"))
    told.take(told.shard.connection_closed("c1", told.now))
    for _ in range(4):
        told.mono_ms += 3000
        told.handle(heartbeat("beat", b, told.shard.view.groups["g"].generation_id))
    told.handle(join("b again", b))
    told.pass_time(SESSION_MS)
    expired = next(each for each in told.entry.rebalances if each.cause is Cause.SESSION_EXPIRED)
    assert expired.detail == (
        f"session of {a} from 10.0.0.1 expired after 10.0 s; its connection had closed 22.0 s"
        " earlier; the session timeout did not run while a request of the member waited"
    )


def test_count_of_client_restarts_begins_again_after_a_long_pause() -> None:
    streak = Streak()
    for number in range(1000):
        streak.note(5_000 + 1_000 * number)
    assert (streak.count, streak.since_ms) == (1000, 5_000)
    streak.note(streak.last_ms + STREAK_PAUSE_MS + 1)
    assert (streak.count, streak.since_ms) == (1, streak.last_ms)


def test_field_state_since_ms_is_the_wall_clock_time_of_the_state_transition() -> None:
    driver, _ = preparing()
    began_ms = driver.now.wall_ms
    group = driver.shard.view.groups["g"]
    paused = Now(driver.mono_ms + 2000, began_ms + 2000 + 12_000)
    assert state_since_ms(group, paused) == began_ms
    assert state_since_ms(group, Now(driver.mono_ms, began_ms - 500)) == began_ms - 500


def test_awaited_member_in_the_sync_phase_is_shown_as_not_syncing() -> None:
    driver = Driver()
    a, _ = driver.form("a", "b", settle=False)
    driver.mono_ms += 1000
    driver.handle(heartbeat("beat", a, 2))
    driver.mono_ms += 300
    found = awaited(driver.shard.view.groups["g"], a, driver.now)
    assert found.words == "the member still heartbeats (last 0.3 s ago) but does not sync"
