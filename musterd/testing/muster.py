"""`Muster`: a broker in its own process, for the length of a test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from musterd.testing.errors import BrokerDied, MusterError
from musterd.testing.faults import FaultVerbs
from musterd.testing.process import Ready, hold
from musterd.testing.served import Json, Served, ports_of


class Muster(FaultVerbs, Served):
    """A Kafka broker on a free port of this machine.

    The broker keeps its data in memory, or in the directory `data`, which is not deleted.
    `settings` are Kafka's broker properties, such as `{"num.partitions": 3}`. `port` and
    `http_port` are 0 to choose free ports. A start that takes longer than `start_timeout_s` seconds
    raises `BrokerDied`.

    >>> with Muster() as broker:
    ...     broker.create_topic("orders", partitions=3)
    ...     produce(broker, "orders", "one", "two")
    ...     sorted(record.value for record in broker.records("orders"))
    [b'one', b'two']

    The broker's process ends with the `with` block, with `close`, or with the test's process.
    """

    def __init__(
        self, *, data: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None, port: int = 0, http_port: int = 0,
        start_timeout_s: float = 30.0,
    ) -> None:  # fmt: skip
        super().__init__(settings, (port, http_port), start_timeout_s, gently=data is not None)
        self._data = None if data is None else Path(data).absolute()
        self._killed: Killed | None = None

    # Life cycle

    def start(self) -> None:
        """Start the broker, also after `stop` or `kill`. Return when it accepts connections."""
        if self._child is None or self._killed is not None:
            self._start_process()
        else:
            self._ask("POST", "/test/start")
            self.time._look_again()

    def stop(self) -> None:
        """Stop the broker as SIGTERM does. The broker keeps its data. Connections are refused until
        `restart`."""
        self._ask("POST", "/test/stop")

    def kill(self) -> None:
        """Kill the broker as SIGKILL does, without a flush. Connections are refused until
        `restart`.

        Data in memory is kept, as the operating system keeps the files of a killed process. With
        the directory `data` the process is really killed, and `restart` starts another process.
        """
        if self._data is None:
            self._ask("POST", "/test/kill")
            return
        clocks = self._ask("GET", "/test/time")
        child, ready = self._child, self._started()
        assert child is not None, "the broker responds, but its process is unknown"
        child.kill()
        self._killed = Killed(ready, clocks)

    def restart(self) -> None:
        """Stop the broker if it runs, and start it with the same addresses, data and time."""
        if self._killed is None:
            self.stop()
        self.start()

    def reset(self) -> None:
        """Empty the broker within milliseconds. The broker keeps its addresses.

        Delete topics, groups, the journal and recorded requests, end all faults, and set the clocks
        to the system's time. If the broker has died or is not started, start it.
        """
        self.time._end_following()
        if self._is_there():
            with suppress(BrokerDied):
                self._tell("POST", "/test/reset")
                return
        self._start_process()
        if self._data is not None:
            self._tell("POST", "/test/reset")

    def close(self) -> None:
        """End the broker's process. Data in memory is lost."""
        super().close()
        if self._killed is not None:
            self._killed.let_go()
        self._killed = None

    # Requests

    def _tell(self, method: str, path: str, **arguments: object) -> Json:
        if self._killed is not None:
            raise MusterError("the broker was killed: call restart()")
        return super()._tell(method, path, **arguments)

    def _is_there(self) -> bool:
        return self._killed is None and super()._is_there()

    def _start_process(self) -> None:
        """Start the first process, or another process with the same addresses and the same time."""
        killed = self._killed
        arguments = [] if self._data is None else [f"--data={self._data}"]
        if killed is not None:
            arguments.append(killed.clock_option)
        self._launch(arguments)
        self._killed = None
        if killed is not None:
            killed.let_go()
            self.time._look_again()


class Killed:
    """The clocks and the ports of a killed process. The next process takes over these clocks and
    ports."""

    def __init__(self, ready: Ready, clocks: Json) -> None:
        self.clock_option = f"--clock-ahead={clocks['ahead_ms']}"
        """The command-line option that sets the clocks of the next process."""
        if clocks["is_frozen"]:
            self.clock_option = f"--clock-at={clocks['wall_ms']}"
        self._held = hold(ports_of(ready))

    def let_go(self) -> None:
        """Release the ports, so that the next process can listen on them."""
        for each in self._held:
            each.close()
