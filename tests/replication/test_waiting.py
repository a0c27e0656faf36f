"""The time since which records of a partition wait to be committed, and the time since which a
replica is out of sync."""

from __future__ import annotations

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


def test_replica_is_out_of_sync_since_the_write_of_the_isr() -> None:
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
