"""Names and passwords over HTTP: those of the users who log in at the broker's listeners.

PLAIN's are in the settings of listeners with SASL. Of SCRAM's the broker knows no password: the one
that is given is hashed, in a thread, and compared with what is kept. What was found right is
remembered for a while, as a digest under a key of this process, since a browser sends it with each
request and a hash takes milliseconds. It is forgotten when what is kept of its user changes.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from broker.time import Time
from security.credentials import (
    BY_NAME,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential,
)
from security.jaas import parse_jaas
from security.principal import Principal, user
from security.sasl.plain import MECHANISM as PLAIN
from security.sasl.plain import users_of

if TYPE_CHECKING:
    from broker.authentication.users import Users
    from broker.config.config import Config

REMEMBERED_S: Final = 30.0
"""So long a password is not hashed again while its user's credentials stay the same."""
REMEMBERED_MAX: Final = 1000
_NOBODYS: Final = b"\0"
"""What the password of an unknown user is compared with: no password has this byte."""
_NOBODYS_CREDENTIAL: Final = ScramCredential(bytes(16), b"", b"", ITERATIONS_MIN)
"""What it is hashed for, which takes as long as for a user: no key is empty."""

Credentials = Mapping[ScramMechanism, ScramCredential]


class HttpUsers(Protocol):
    """Who may be let in by name and password."""

    def remembered(self, name: str, password: str) -> Principal | None:
        """Who it is, if this was found right a short time ago."""

    async def check(self, name: str, password: str) -> Principal | None:
        """Who it is; None where the password is not that of a user."""


class ListenerUsers:
    """See the module; ``scram`` gives the credentials of a user, none where there is none."""

    def __init__(
        self,
        plain: Iterable[Mapping[str, str]],
        scram: Callable[[str], Credentials],
        time: Time,
    ) -> None:
        self._plain = list(plain)
        self._scram = scram
        self._time = time
        self._key = time.fresh_id() + time.fresh_id()
        self._good: OrderedDict[bytes, tuple[float, Credentials]] = OrderedDict()
        """By digest of a name with its password: until when it is good without another look, and
        the credentials for which it was found so."""

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")

    def remembered(self, name: str, password: str) -> Principal | None:
        """Who it is, if this was found right a short time ago."""
        found = self._good.get(self._digest(name, password))
        if found is None:
            return None
        until_s, credentials = found
        is_good = until_s > self._time.monotonic_s() and credentials == self._scram(name)
        return user(name) if is_good else None

    async def check(self, name: str, password: str) -> Principal | None:
        """Who it is; None where the password is not that of a user."""
        known = self.remembered(name, password)
        if known is not None:
            return known
        digest = self._digest(name, password)
        self._good.pop(digest, None)
        credentials = dict(self._scram(name))
        if not self._is_plain(name, password.encode()) and not await self._is_scram(
            credentials, password
        ):
            return None
        self._good[digest] = self._time.monotonic_s() + REMEMBERED_S, credentials
        if len(self._good) > REMEMBERED_MAX:
            self._good.popitem(last=False)
        return user(name)

    def _is_plain(self, name: str, password: bytes) -> bool:
        found = False
        for passwords in self._plain:  # each is looked at, so that the time says nothing
            there = passwords.get(name)
            expected = _NOBODYS if there is None else there.encode()
            found |= hmac.compare_digest(expected, password)
        return found

    async def _is_scram(self, credentials: Credentials, password: str) -> bool:
        if not credentials:
            return False
        return await self._time.in_thread(_fits, credentials, password.encode())


def _fits(credentials: Credentials, password: bytes) -> bool:
    """In a thread. All are of one user, who has one password mostly."""
    for mechanism, kept in credentials.items():
        salted = mechanism.salted_password(password, kept.salt, kept.iterations)
        made = credential(mechanism, salted, kept.salt, kept.iterations)
        if hmac.compare_digest(made.stored_key, kept.stored_key):
            return True
    return False


def _mechanisms(config: Config) -> Iterator[tuple[str, str]]:
    """Each listener with each mechanism that it takes."""
    for endpoint in config.listeners:
        if endpoint.has_sasl:
            for name in config.of_listener(endpoint.name)["sasl.enabled.mechanisms"].split(","):
                yield endpoint.name, name


def plain_users(config: Config) -> Iterator[Mapping[str, str]]:
    """User to password, of each listener that takes PLAIN."""
    for listener, name in _mechanisms(config):
        if name == PLAIN:
            text = config.of_mechanism(listener, PLAIN).own("sasl.jaas.config")
            yield users_of(parse_jaas(text).options)


def scram_users(config: Config, users: Users) -> Callable[[str], Credentials]:
    """What is kept of a user, for the mechanisms that some listener takes.

    Of a name that nobody has, what no password fits: how long the check takes says nothing.
    """
    taken = [BY_NAME[name] for _, name in _mechanisms(config) if name in BY_NAME]
    nobody = dict.fromkeys(taken[:1], _NOBODYS_CREDENTIAL)

    def of(name: str) -> Credentials:
        return {each: kept for each, kept in users.of(name).items() if each in taken} or nobody

    return of
