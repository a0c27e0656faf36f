"""One machine of a simulated cluster: its disk, its network, and its broker processes, one after
another."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from broker.cluster.zookeeper.zookeeper import Where, ZooKeeper
from broker.time import Time
from tests.simulated_files import SimulatedFiles
from tests.simulation.cluster.fellow_loop import FellowLoop
from tests.simulation.cluster.internet import MachineNetwork
from tests.simulation.cluster.zookeeper import HOST, Session
from tests.simulation.whole.agenda import MS
from tests.simulation.whole.process import PORT, Process

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

DOWN_MS = (50, 500, 4_000, 15_000)
"""Possible times in ms for which a machine is down before its broker restarts."""
_LOOKS_S = 0.2


class BrokerMachine:
    """A machine with one broker. Implements `Machine` for a cluster."""

    def __init__(self, world: ClusterWorld, node_id: int, chance: Random) -> None:
        self.world = world
        self.node_id = node_id
        self.chance = chance
        self.host = f"10.9.0.{node_id}"
        self.agenda = world.agenda
        self.network = MachineNetwork(world.internet, self.host, Random(chance.random()))
        self.files = SimulatedFiles()
        self.settings = {
            **world.settings,
            "broker.id": str(node_id),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
        }
        self.wall_ahead_s = 0.0
        self.happened = world.happened
        self.process: Process | None = None
        self.session: Session | None = None
        self.lives = 0
        """The number of broker processes that were started on this machine."""
        self.disk_ns = 0
        """The extra time in ns that each disk operation currently takes."""
        self.network.on_written = world.written
        self.network.on_closed = world.closed

    def start(self) -> None:
        assert self.process is None
        self.lives += 1
        chance = Random(self.chance.random())
        self.process = process = Process(self, chance, FellowLoop, self._connect)
        process.loop.now_ns = self.agenda.now_ns
        process.loop.disk_ns = lambda: self.disk_ns
        process.begin()

    def serves(self) -> None:
        self.happened["served"] += 1

    @property
    def is_serving(self) -> bool:
        """Returns True if the broker accepts clients and has joined the cluster."""
        return self.process is not None and self.process.serves

    async def _connect(self, where: Where, time: Time) -> ZooKeeper:
        process = self.process
        assert process is not None
        async with time.within(where.connection_timeout_ms / 1000):
            while self.world.internet.is_cut(self.host, HOST):
                await time.sleep(_LOOKS_S)
        timeout_ns = where.session_timeout_ms * MS
        self.session = Session(self.world.zookeeper, process, self.host, timeout_ns)
        return self.session

    # -- turns and end of the process

    def turn(self) -> None:
        """Runs one iteration of the event loop of the process, and handles the end of the
        process."""
        process = self.process
        assert process is not None
        loop = process.loop
        assert isinstance(loop, FellowLoop)
        loop.turn()
        process.look()
        if process.ended or process.killed:
            self.bury()

    def kill(self, *, power_fails: bool = False) -> None:
        """Kills the process with SIGKILL, or cuts the power of the machine. Must not be called
        during a turn of the process."""
        assert self.process is not None
        self.process.loses_power = power_fails
        self.process.kill()
        self.bury()

    def bury(self) -> None:
        """Closes all connections and files of a dead process, and schedules the restart."""
        process = self.process
        assert process is not None
        self.world.check_errors(self, process)
        self.network.cut()
        process.bury()
        self.files.kill()
        self.process = self.session = None
        if process.loses_power:
            self.files.lose_power(self.chance)
        down_ms = self.chance.choice(DOWN_MS[:2] if self.world.calm else DOWN_MS)
        self.agenda.after(down_ms * MS, self.start)
