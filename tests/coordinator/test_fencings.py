"""Tests the journal entries about two live processes that use the same group.instance.id, so that
one of them is fenced."""

from __future__ import annotations

from coordinator.classic.member_restarts import TIMES_KEPT
from coordinator.group_journal import INSTANCES_KEPT
from tests.coordinator.calls_for_tests import join
from tests.coordinator.test_journal import JournaledShard


def static(told: JournaledShard, number: int, connection: str, instance: str = "same") -> None:
    """Lets process ``number`` join as a static member without a member id."""
    client, host = f"host{number % 2}", f"/10.0.0.{number % 2}"
    told.handle(
        join(
            f"{instance}{number}",
            group_instance_id=instance,
            client_id=client,
            client_host=host,
            connection=connection,
        )
    )
    told.mono_ms += 1000


def test_fencing_entry_names_both_live_processes_with_the_same_instance_id() -> None:
    told = JournaledShard()
    for number in range(34):
        static(told, number, f"c{number}")
    (fencing,) = told.entry.fencings
    assert (fencing.instance, fencing.streak.count) == ("same", 33)
    assert len(fencing.recent_ms) == TIMES_KEPT
    assert (fencing.client_id, fencing.client_host) == ("host1", "/10.0.0.1")
    assert (fencing.other_client_id, fencing.other_client_host) == ("host0", "/10.0.0.0")


def test_restart_of_a_static_member_is_not_recorded_as_a_fencing() -> None:
    told = JournaledShard()
    for number in range(5):
        static(told, 2 * number, f"c{number}")
        told.take(told.shard.connection_closed(f"c{number}", told.now))
    assert not told.entry.fencings


def test_rejoin_on_the_same_connection_is_not_recorded_as_a_fencing() -> None:
    told = JournaledShard()
    for number in range(5):
        static(told, number, "c")
    assert not told.entry.fencings


def test_number_of_fencing_entries_in_the_journal_is_bounded() -> None:
    told = JournaledShard()
    for number in range(2 * INSTANCES_KEPT):
        for turn in range(2):
            static(told, turn, f"c{turn}", f"i{number}")
    assert len(told.entry.fencings) == INSTANCES_KEPT
