"""Tests that a broker of a cluster still calls replica hooks and other callbacks if its journal
raises errors."""

from __future__ import annotations

from typing import Any, cast

from broker.cluster.journal_recorder import JournalRecorder
from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.zookeeper.zookeeper import Connection
from broker.loop.internal_errors import InternalErrors


class Broken:
    """An object that raises an error whenever an attribute is used. It replaces the journal, the
    cache and an event."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a bug in a report")


def test_replica_hooks_and_callbacks_run_when_the_journal_fails() -> None:
    errors = InternalErrors()
    broken = cast("Any", Broken())
    journal_recorder = JournalRecorder(1, broken, broken, errors)
    done: list[str] = []
    hooks = journal_recorder.beside(
        ReplicaHooks(
            on_leader=lambda *_: done.append("leader"),
            on_follower=lambda *_: done.append("follower"),
            on_learnt=lambda _: done.append("learnt"),
            on_deleted=lambda *_: None,
        )
    )
    hooks.on_leader(broken, 1)
    hooks.on_follower(broken, 1)
    hooks.on_learnt(broken)
    journal_recorder.session_changed(Connection.CONNECTED)
    journal_recorder.registered(1)
    journal_recorder.observe(broken)
    assert done == ["leader", "follower", "learnt"]
    assert errors.counts["observer"] == 6
