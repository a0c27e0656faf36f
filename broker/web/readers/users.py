"""Names and passwords over HTTP. The users are those of the broker's Kafka listeners.

The broker's configuration contains the passwords of PLAIN users. The broker does not know the
passwords of SCRAM users: a thread hashes the password from the client and compares the hash with
the stored credential. A browser sends the password with each request, and a hash takes
milliseconds. Therefore a right password is remembered for a while, as a digest with a key of this
process. The digest is removed when the user's credentials change.
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
"""The number of seconds for which a right password is not hashed again, unless the user's
credentials change."""
REMEMBERED_MAX: Final = 1000
_NOBODYS: Final = b"\0"
"""The value with which the password of an unknown user is compared. No real password contains this
byte."""
_DECOY_CREDENTIAL: Final = ScramCredential(bytes(16), b"", b"", ITERATIONS_MIN)
"""The credential with which the password of an unknown user is checked, so that the check takes as
long as for a known user. No password matches, since a stored key is never empty."""

Credentials = Mapping[ScramMechanism, ScramCredential]


class HttpUsers(Protocol):
    """The users who may log in by name and password."""

    def remembered(self, name: str, password: str) -> Principal | None:
        """Returns the principal if this password was recently found right, else None."""

    async def check(self, name: str, password: str) -> Principal | None:
        """Returns the principal if the password is right; None for an unknown user or a wrong
        password."""


class ListenerUsers:
    """The users of PLAIN and SCRAM. The function ``scram`` returns the SCRAM credentials of a
    user."""

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
        """The passwords that were checked and are right. The key is a digest of user name and
        password. The value has the time in seconds at which the password must be checked again, and
        the stored credentials of the user at the check."""

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")

    def remembered(self, name: str, password: str) -> Principal | None:
        found = self._good.get(self._digest(name, password))
        if found is None:
            return None
        until_s, credentials = found
        is_good = until_s > self._time.monotonic_s() and credentials == self._scram(name)
        return user(name) if is_good else None

    async def check(self, name: str, password: str) -> Principal | None:
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
        for passwords in self._plain:  # all are compared, so that the time reveals nothing
            there = passwords.get(name)
            expected = _NOBODYS if there is None else there.encode()
            found |= hmac.compare_digest(expected, password)
        return found

    async def _is_scram(self, credentials: Credentials, password: str) -> bool:
        if not credentials:
            return False
        return await self._time.in_thread(_fits, credentials, password.encode())


def _fits(credentials: Credentials, password: bytes) -> bool:
    """Returns True if one of the credentials matches the password. All credentials are of one user,
    usually with the same password. Runs in a thread."""
    for mechanism, kept in credentials.items():
        salted = mechanism.salted_password(password, kept.salt, kept.iterations)
        made = credential(mechanism, salted, kept.salt, kept.iterations)
        if hmac.compare_digest(made.stored_key, kept.stored_key):
            return True
    return False


def _mechanisms(config: Config) -> Iterator[tuple[str, str]]:
    """Yields a pair of listener name and mechanism for each SASL mechanism of each listener."""
    for endpoint in config.listeners:
        if endpoint.has_sasl:
            for name in config.of_listener(endpoint.name)["sasl.enabled.mechanisms"].split(","):
                yield endpoint.name, name


def plain_users(config: Config) -> Iterator[Mapping[str, str]]:
    """Yields the passwords by user name, for each listener with the mechanism PLAIN."""
    for listener, name in _mechanisms(config):
        if name == PLAIN:
            text = config.of_mechanism(listener, PLAIN).own("sasl.jaas.config")
            yield users_of(parse_jaas(text).options)


def scram_users(config: Config, users: Users) -> Callable[[str], Credentials]:
    """Returns a function that returns a user's credentials, for the SCRAM mechanisms of the
    listeners.

    For an unknown user the function returns a credential that no password matches, so that the
    duration of the check does not reveal whether the user exists.
    """
    taken = [BY_NAME[name] for _, name in _mechanisms(config) if name in BY_NAME]
    decoy = dict.fromkeys(taken[:1], _DECOY_CREDENTIAL)

    def of(name: str) -> Credentials:
        return {each: kept for each, kept in users.of(name).items() if each in taken} or decoy

    return of
