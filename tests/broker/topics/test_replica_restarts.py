"""A replica after a crash: its high watermark comes from the checkpoint and is at most the log end
offset. Records that a follower truncated are not reported as missing."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.config import Config
from broker.loop.histogram import Writes
from broker.topics.logs import LogManager
from broker.topics.registry import BadDirectory, Topic
from broker.topics.replica_logs import ReplicaLogs, _Dropped
from broker.topics.replicas.replica import Replica
from broker.topics.replicas.replica_services import ReplicaServices
from log.errors import CorruptLog
from replication.values import Rules
from tests.broker.partitions import Isr, no_quotas, services_with, state
from tests.log.log_tools import batch
from tests.simulated_files import SimulatedFiles

TOPIC = Topic("t", bytes(range(1, 17)), 1)
DATA = "/data"


def manager(fs: SimulatedFiles) -> LogManager:
    alone = services_with()
    known: dict[str, Any] = {name: getattr(alone, name) for name in type(alone).__slots__}
    known |= {"writes": Writes(), "node_id": 1, "rules": lambda _: Rules(), "isr_writer": Isr()}
    known["quotas"] = no_quotas()
    fs.make_directory(DATA)
    return LogManager(fs, DATA, Config({}), ReplicaServices(**known))


def replica_of(logs: LogManager) -> Replica:
    found = logs.get("t", 0)
    assert isinstance(found, Replica)
    return found


def followed(fs: SimulatedFiles, records: int, high_watermark: int) -> LogManager:
    """Writes records and checkpoints as a follower does, and returns the log manager of the
    follower."""
    logs = manager(fs)
    logs.open_all([], in_cluster=True)
    logs.show(logs.make(TOPIC))
    replica = replica_of(logs)
    replica.follow(state(leader=2))
    replica.append_replicated(b"".join(batch(n) for n in range(records)), high_watermark, 0)
    logs.write_checkpoints()
    return logs


def reopened(fs: SimulatedFiles) -> Replica:
    """Returns the replica after a ``kill -9`` and a restart."""
    logs = manager(fs.as_killed())
    logs.open_all([TOPIC], in_cluster=True)
    return replica_of(logs)


@pytest.mark.parametrize("high_watermark", [0, 3, 5])
def test_high_watermark_after_a_crash_is_the_checkpointed_offset(high_watermark: int) -> None:
    fs = SimulatedFiles()
    followed(fs, 5, high_watermark)
    found = reopened(fs)
    assert (found.high_watermark, found.log.log_end_offset) == (high_watermark, 5)
    assert found.log.committed_offset == high_watermark


def test_high_watermark_after_a_crash_is_at_most_the_log_end_offset() -> None:
    fs = SimulatedFiles()
    logs = followed(fs, 5, 5)
    replica_of(logs).truncate_for_leader(2)
    assert reopened(fs).high_watermark == 2


@pytest.mark.parametrize("how", ["truncated", "begun anew"])
def test_start_succeeds_when_a_follower_truncated_flushed_records(how: str) -> None:
    """After an unclean leader election, the leader can lack records that this follower has already
    flushed and checkpointed."""
    fs = SimulatedFiles()
    logs = followed(fs, 5, 5)
    replica = replica_of(logs)
    replica.log.flush()
    logs.write_checkpoints()
    if how == "truncated":
        replica.truncate_for_leader(2)
        assert reopened(fs).log.log_end_offset == 2
    else:
        replica.start_at(100)
        found = reopened(fs).log
        assert (found.log_start_offset, found.log_end_offset) == (100, 100)


def test_start_fails_when_the_log_ends_before_its_recovery_point() -> None:
    fs = SimulatedFiles()
    logs = followed(fs, 5, 5)
    replica = replica_of(logs)
    replica.log.flush()
    logs.write_checkpoints()
    replica._lower_recovery_point = lambda *_: None
    replica.truncate_for_leader(2)
    with pytest.raises(CorruptLog, match="before its recovery point"):
        reopened(fs)


def put_away(logs: LogManager) -> None:
    """Deletes the replica, as the broker does for a StopReplica request."""
    left: list[tuple[str, int]] = []
    ReplicaLogs(logs, None, None, None)._put_away(  # type: ignore[arg-type]
        [_Dropped("t", 0, replica_of(logs))], "0" * 32, left
    )
    assert left == []


def started(fs: SimulatedFiles, topic: Topic = TOPIC) -> LogManager:
    logs = manager(fs.as_killed())
    logs.open_all([topic], in_cluster=True)
    return logs


def test_checkpoints_omit_a_deleted_replica_before_its_directory_is_renamed() -> None:
    fs = SimulatedFiles()
    logs = followed(fs, 5, 5)
    named = []
    rename = fs.rename

    def renamed(old: str, new: str, *more: Any) -> None:
        if new.endswith("-delete"):
            logs.checkpoints.read()
            named.append(logs.checkpoints.named())
        rename(old, new, *more)

    fs.rename = renamed  # type: ignore[method-assign]
    put_away(logs)
    assert named == [{}]
    assert started(fs).get("t", 0) is None


def test_start_succeeds_when_a_checkpoint_names_a_deleted_replica() -> None:
    fs = SimulatedFiles()
    logs = followed(fs, 5, 5)
    fs.fail("write", "/data/recovery-point-offset-checkpoint.tmp")
    put_away(logs)
    fs.heal()
    logs.checkpoints.read()
    assert ("t", 0) in logs.checkpoints.named()
    assert started(fs).get("t", 0) is None
    with pytest.raises(BadDirectory, match="t-0 is missing"):  # the topic was recreated
        started(fs, Topic("t", bytes(range(2, 18)), 1))
