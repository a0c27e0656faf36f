"""A cluster in which leaders lose power and restart before a controller notices the failure.

The disk of the leader is slow, so a power failure removes records that its followers already have.
The controller crashes a little later. The sessions of both brokers expire at the same time, and the
leader registers again before a new controller is elected.
"""

from __future__ import annotations

from tests.simulation.cluster.busy import BusyCluster
from tests.simulation.cluster.machine import BrokerMachine
from tests.simulation.whole.agenda import MS, S

FIRST_NS = 8 * S
EVERY_NS = 20 * S
SLOW_DISK_NS = 300 * MS
POWER_FAILS_AFTER_MS = 500
CONTROLLER_DIES_AFTER_MS = (100, 500, 1_000, 1_500)


class UnseenReturns(BusyCluster):
    """A busy cluster whose only faults are slow disks and unnoticed restarts of leaders."""

    def __init__(self, seed: int, version: str = "2.6-IV0") -> None:
        self._version = version
        super().__init__(seed)
        for machine in self.machines:
            machine.settings["log.flush.interval.messages"] = "1"
        self.faults.worth = {each: int(each == "slow disk") for each in self.faults.worth}
        self.agenda.after(FIRST_NS, self._strike)

    def _settings(self) -> dict[str, str]:
        return {**super()._settings(), "inter.broker.protocol.version": self._version}

    def _strike(self) -> None:
        if self.calm:
            return
        self.agenda.after(EVERY_NS, self._strike)
        controller = self.faults.controller()
        leaders = [each for each in self.machines if each is not controller and self._is_led(each)]
        if controller is None or not leaders:
            return
        self.excuse(EVERY_NS)
        self.happened["struck"] += 1
        leader = self.chance.choice(leaders)
        leader.disk_ns = SLOW_DISK_NS
        self.agenda.after(POWER_FAILS_AFTER_MS * MS, self._power_fails, leader, controller)

    def _power_fails(self, leader: BrokerMachine, controller: BrokerMachine) -> None:
        leader.disk_ns = 0
        if leader.process is not None:
            leader.kill(power_fails=True)
        delay_ms = self.chance.choice(CONTROLLER_DIES_AFTER_MS)
        self.agenda.after(delay_ms * MS, self._kill, controller)

    def _is_led(self, machine: BrokerMachine) -> bool:
        return machine.process is not None and any(
            self.leads(machine.node_id, each.topic, each.partition) for each in self.truths
        )

    @staticmethod
    def _kill(machine: BrokerMachine) -> None:
        if machine.process is not None:
            machine.kill()
