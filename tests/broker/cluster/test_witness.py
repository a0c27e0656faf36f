"""What a broker of a cluster writes into its journal harms nothing that it is about (law 10)."""

from __future__ import annotations

from typing import Any, cast

from broker.cluster.replicas.replica_hooks import ReplicaHooks
from broker.cluster.witness import Witness
from broker.cluster.zookeeper.zookeeper import Connection
from broker.loop.internal_errors import InternalErrors


class Broken:
    """A journal, a cache and an event, each with a bug."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("a bug in a report")


def test_hooks_and_callbacks_run_when_the_journal_fails() -> None:
    errors = InternalErrors()
    broken = cast("Any", Broken())
    witness = Witness(1, broken, broken, errors)
    done: list[str] = []
    hooks = witness.beside(
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
    witness.session_changed(Connection.CONNECTED)
    witness.registered(1)
    witness.observe(broken)
    assert done == ["leader", "follower", "learnt"]
    assert errors.counts["observer"] == 6
