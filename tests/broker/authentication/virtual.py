"""Starts a broker with logins in virtual time, and clients that log in with PLAIN from given
addresses."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random
from typing import Any

from broker.authentication.logins import Logins
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_NAME
from tests.broker.authentication.letting_in import SETTINGS, plain_token
from tests.simulated_files import SimulatedFiles
from tests.simulation.whole.agenda import Agenda, S
from tests.simulation.whole.living import silent
from tests.simulation.whole.network import Network
from tests.simulation.whole.process import PORT, Process


class Login:
    """One login of a client. ``code`` is the error code of the response; None until it arrives."""

    def __init__(self, world: LoginWorld, host: str, name: str, password: str) -> None:
        self.code: int | None = None
        self.took_s: float | None = None
        """The seconds from the connection until the response arrives or the broker closes the
        connection; None until then."""
        self._world = world
        self._token = plain_token(name, password)
        self._began_ns = world.agenda.now_ns
        self._calls = ["SaslHandshake", "SaslAuthenticate"]
        wire = world.network.connect(PORT, host)
        assert wire is not None, "the broker does not listen"
        self.wire = wire
        wire.on_frame, wire.on_lost = self._answered, self._ended
        self._send("SaslHandshake", {"mechanism": "PLAIN"})

    def _send(self, name: str, body: dict[str, Any]) -> None:
        api = BY_NAME[name]
        frame = encode_request_header(api.key, 1, 1, "client") + api.encode_request(1, body)
        self.wire.send(struct.pack(">i", len(frame)) + frame)

    def _answered(self, frame: bytes) -> None:
        api = BY_NAME[self._calls.pop(0)]
        _, position = decode_response_header(api.key, 1, frame)
        code = api.decode_response(1, frame, position)["error_code"]
        if self._calls:
            self._send("SaslAuthenticate", {"auth_bytes": self._token})
            return
        self.code = code
        self._ended()

    def _ended(self) -> None:
        if self.took_s is None:
            self.took_s = (self._world.agenda.now_ns - self._began_ns) / S


class LoginWorld:
    """A broker whose only listener requires a login. `run` advances the virtual time."""

    def __init__(self, **settings: str) -> None:
        self.agenda = Agenda()
        self.network = Network(self.agenda, Random(1))
        self.files = SimulatedFiles()
        self.settings = {
            **SETTINGS,
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{PORT}",
            "connection.failed.authentication.delay.ms": "100",
            **settings,
        }
        self.wall_ahead_s = 0.0
        self.happened: Counter[str] = Counter()
        self._process = Process(self, Random(2))
        self.run(1)

    @property
    def logins(self) -> Logins:
        return self._process.broker.secured.logins

    def serves(self) -> None:
        """Does nothing. The simulated process calls this method when the broker listens."""

    def log_in(self, name: str, password: str, host: str = "10.0.0.9") -> Login:
        return Login(self, host, name, password)

    def run(self, seconds: float) -> None:
        self.agenda.after(int(seconds * S), self._process.loop.leave)
        with silent():
            self._process.run()

    def end(self) -> None:
        self._process.bury()
