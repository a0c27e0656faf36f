"""Checks of the partition states that controllers and leaders write to ZooKeeper: the permitted
writers and the permitted changes."""

from __future__ import annotations

import re

from broker.cluster.zookeeper.zookeeper import Create, Delete, Set
from broker.test_mode.registry.ensemble import Ensemble
from protocol.znodes import cluster
from protocol.znodes.admin import DELETE_TOPICS
from protocol.znodes.topics import StateNode, decode_state

Place = tuple[str, int]
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


class WrittenStates:
    """Checks all writes of partition states to a simulated ZooKeeper, in their order."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.now: dict[Place, StateNode] = {}
        self.going: set[str] = set()
        """Topics that are being deleted. Their partition states are no longer checked."""
        self._ensemble = ensemble
        self._controller_epoch = 0

    def look(self) -> list[tuple[Place, StateNode | None]]:
        """Checks the writes since the previous call. Returns each written state, or None for a
        deletion."""
        written: list[tuple[Place, StateNode | None]] = []
        writes = self._ensemble.writes
        for each in writes:
            if isinstance(each, Set) and each.path == cluster.CONTROLLER_EPOCH:
                epoch = cluster.decode_epoch(each.data)
                assert epoch == self._controller_epoch + 1, f"controller epoch {epoch}"
                self._controller_epoch = epoch
            topic = each.path.removeprefix(f"{DELETE_TOPICS}/")
            if topic != each.path:
                if isinstance(each, Create):
                    self.going.add(topic)
                else:
                    self.going.discard(topic)
                continue
            found = _STATE.fullmatch(each.path)
            if found is None:
                continue
            place = (found[1], int(found[2]))
            if isinstance(each, Delete):
                self.now.pop(place, None)
                written.append((place, None))
            elif isinstance(each, Create | Set):
                state = decode_state(*place, each.data or b"")
                self._check(place, state)
                self.now[place] = state
                written.append((place, state))
        writes.clear()
        return written

    def _check(self, place: Place, state: StateNode) -> None:
        before = self.now.get(place)
        told = f"{place}: {before}, then {state}"
        assert state.isr, told
        assert state.leader == -1 or state.leader in state.isr, told
        if before is None:
            assert state.leader_epoch == 0, told
        elif state.leader_epoch == before.leader_epoch:
            # The leader, or the controller for it, changes only the in-sync replicas.
            assert state.leader == before.leader, told
            return
        else:
            assert state.leader_epoch == before.leader_epoch + 1, told
            assert state.controller_epoch >= before.controller_epoch, told
            assert set(state.isr) <= set(before.isr), told
        # Writes of an older controller are fenced.
        assert state.controller_epoch == self._controller_epoch, (
            f"{told}, in controller epoch {self._controller_epoch}"
        )
