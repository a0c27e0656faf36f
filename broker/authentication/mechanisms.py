"""The SASL mechanisms that a listener offers, and the limits of its logins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.time import Time
from protocol.slotted import slotted
from security.credentials import BY_NAME, Decoy, Find
from security.sasl.exchange import Exchange, Mechanism
from security.sasl.plain import MECHANISM as PLAIN
from security.sasl.plain import log_in, tried_name
from security.sasl.scram import ScramServer
from security.sasl.steps import Step

Begin = Callable[[], Mechanism]
"""A function that starts one login with a mechanism."""

SERVED: Final = (PLAIN, *BY_NAME)


class PlainServer:
    """One login by PLAIN."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def tries(self, message: bytes) -> str | None:
        """Returns the user name in the client's message; None if the message is invalid."""
        return tried_name(message)

    def step(self, message: bytes) -> Step:
        return log_in(message, self._passwords)


def plain(passwords: Mapping[str, str]) -> Begin:
    """Returns a function that starts a PLAIN login. The users come from the listener's
    ``sasl.jaas.config``."""
    return lambda: PlainServer(passwords)


def scram(name: str, find: Find, decoy: Decoy, time: Time) -> Begin:
    """Returns a function that starts a login by the SCRAM mechanism ``name``."""
    mechanism = BY_NAME[name]

    def begin() -> ScramServer:
        nonce = (time.fresh_id() + time.fresh_id()).hex()
        return ScramServer(mechanism, find, nonce, decoy)

    return begin


@slotted(frozen=True)
class ListenerSasl:
    """The login settings of one listener."""

    offered: Mapping[str, Begin]
    """The mechanisms by name, in the order of ``sasl.enabled.mechanisms``."""
    session_ms: Mapping[str, int]
    """The value of ``connections.max.reauth.ms`` by mechanism; 0 if the sessions of a mechanism do
    not expire."""
    frame_bytes_max: int = 524288
    """The value of ``sasl.server.max.receive.size``."""
    failure_delay_ms: int = 100
    """The value of ``connection.failed.authentication.delay.ms``."""

    def exchange(self) -> Exchange:
        return Exchange(self.offered, self.session_ms)
