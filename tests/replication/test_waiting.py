"""Tests of two durations: how long uncommitted records have waited, and how long a replica has been
out of sync."""

from __future__ import annotations

from protocol.errors import INELIGIBLE_REPLICA
from replication.leader import NEVER, LedReplicas
from replication.values import PartitionState, Rules

STATE = PartitionState(1, 1, 5, (1, 2), 7, (1, 2, 3))


def _led(state: PartitionState = STATE) -> LedReplicas:
    return LedReplicas(1, state, 0, 0, 0, 1_000, Rules(lag_time_max_ms=10_000))


def test_waiting_time_begins_at_the_append_of_the_first_uncommitted_record() -> None:
    led = _led()
    led.begun(1_000)
    led.follower_fetched(2, 0, 0, 1_000)
    assert led.waits_since_ms == NEVER
    led.appended(5, 2_000)
    led.appended(9, 3_000)
    led.tick(4_000)
    assert led.waits_since_ms == 2_000
    led.follower_fetched(2, 5, 9, 5_000)
    assert (led.high_watermark, led.waits_since_ms) == (5, 5_000), "it has moved, records wait"
    led.follower_fetched(2, 9, 9, 6_000)
    assert (led.high_watermark, led.waits_since_ms) == (9, NEVER)


def test_field_removes_in_ms_is_the_time_until_a_lagging_replica_leaves_the_isr() -> None:
    led = _led()
    led.begun(1_000)
    led.follower_fetched(2, 0, 0, 1_000)
    assert led.removes_in_ms(2_000) is None
    led.appended(5, 2_000)
    assert led.removes_in_ms(2_000) == 9_001
    assert led.tick(11_000).wanted_isr is None
    assert led.removes_in_ms(12_000) == 0
    assert led.tick(11_001).wanted_isr is not None
    assert led.removes_in_ms(12_000) is None, "the removal is in flight"


def test_follower_removed_from_the_isr_in_test_mode_does_not_block_the_high_watermark() -> None:
    led = LedReplicas(
        1, STATE._replace(isr=(1, 2, 3)), 0, 0, 0, 1_000, Rules(lag_time_max_ms=10_000)
    )
    led.begun(1_000)
    for replica in (2, 3):
        led.follower_fetched(replica, 0, 0, 1_000)

    wanted = led.lagged([3], 2_000).wanted_isr

    assert wanted is not None
    assert wanted.isr == (1, 2)
    led.isr_written(8, 2_001)
    led.appended(5, 2_002)
    led.follower_fetched(2, 5, 5, 2_003)
    assert led.high_watermark == 5


def test_out_of_sync_time_of_a_replica_begins_when_the_new_isr_is_written() -> None:
    led = _led()
    assert led.out_since_ms == {3: 1_000}
    led.begun(1_000)
    led.appended(5, 2_000)
    wanted = led.tick(20_000).wanted_isr
    assert wanted is not None
    assert wanted.isr == (1,)
    assert led.out_since_ms == {3: 1_000}, "it is not written yet"
    led.isr_written(8, 21_000)
    assert led.out_since_ms == {3: 1_000, 2: 21_000}
    led.new_state(STATE._replace(leader_epoch=6, isr=(1, 3)), 5, 30_000)
    assert led.out_since_ms == {2: 21_000}


def test_high_watermark_rises_when_the_addition_of_a_dead_replica_is_rejected() -> None:
    alive = {1, 2, 3}
    rules = Rules(lag_time_max_ms=10_000, is_alive=alive.__contains__)
    led = LedReplicas(1, STATE, 0, 0, 0, 1_000, rules)
    led.begun(1_000)
    led.follower_fetched(2, 0, 0, 1_000)
    assert led.follower_fetched(3, 0, 0, 1_000).wanted_isr is not None
    led.appended(5, 2_000)
    alive.remove(3)
    assert led.follower_fetched(2, 5, 5, 2_001).high_watermark == 0, "the addition is in flight"

    assert led.isr_refused(INELIGIBLE_REPLICA, 2_002).high_watermark == 5
