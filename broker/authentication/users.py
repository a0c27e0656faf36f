"""The SCRAM users (KIP-554): their credentials in memory, and the interface of their store.

Logins and the APIs use `Users`. A `UserStore` stores the credentials: a file in the data directory
(`broker/authentication/user_file.py`) or, in a cluster, nodes in ZooKeeper, which also report
changes by other brokers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from broker.loop.slices import Slices
from protocol.errors import (
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_SASL_MECHANISM,
)
from security.credentials import (
    BY_CODE,
    ITERATIONS_MIN,
    Decoy,
    Find,
    Found,
    ScramCredential,
    ScramMechanism,
    credential,
    decoy,
    wrong_iterations,
)

Credentials = Mapping[ScramMechanism, ScramCredential]
"""The credentials of one user, by mechanism; empty for an unknown user."""
Edit = Mapping[ScramMechanism, ScramCredential | None]
"""The changed credentials of one user, by mechanism; None deletes a credential."""


class UserStore(Protocol):
    """Stores the credentials of users. Other processes may change the stored credentials too."""

    async def alter(self, edits: Mapping[str, Edit]) -> Mapping[str, Credentials | str]:
        """Applies edits to the stored credentials. Credentials that an edit does not name are
        unchanged.

        Returns the new credentials of each user, or the reason as text if they were not changed.
        """


class Upsertion(NamedTuple):
    """A credential to add or replace. The repr contains no secret."""

    name: str
    mechanism_code: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Upsertion({self.name!r}, {self.mechanism_code}, {self.iterations})"


class Deletion(NamedTuple):
    """A credential to delete."""

    name: str
    mechanism_code: int


class Outcome(NamedTuple):
    """The error code and message of the changes to one user."""

    error_code: int = NONE
    message: str | None = None


class Users:
    """The SCRAM users of a broker; only the event loop's thread may use this class."""

    def __init__(self, store: UserStore, known: Mapping[str, Credentials], secret: bytes) -> None:
        """``secret`` is the key from which decoys (credentials of unknown names) are computed. The
        key stays the same after a restart."""
        self._store = store
        self._known: dict[str, Credentials] = {}
        self._iterations: defaultdict[ScramMechanism, Counter[int]] = defaultdict(Counter)
        """The number of users with each iteration count, by mechanism."""
        for name, credentials in known.items():
            self.update(name, credentials)
        self.secret = secret
        self._changing = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, name: str) -> Credentials:
        return self._known.get(name, {})

    def names(self) -> Iterable[str]:
        return sorted(self._known)

    def finder(self, mechanism: ScramMechanism) -> Find:
        """Returns the function that finds a user's SCRAM credential for `ScramServer`. This
        function returns None if the client logs in with a delegation token."""

        def find(name: str, by_token: bool) -> Found | None:
            found = None if by_token else self.of(name).get(mechanism)
            return None if found is None else Found(found, name)

        return find

    def decoys(self, mechanism: ScramMechanism) -> Decoy:
        """Returns the function with which `ScramServer` makes decoys, the credentials of unknown
        names.

        Decoys of users resemble the credentials of known users; decoys of tokens are all alike.
        """

        def decoy_of(name: str, by_token: bool) -> ScramCredential:
            # A client that tries a name as user and as token must not learn which of them exists.
            kind = b"token " if by_token else b"user "
            iterations = () if by_token else self._iterations[mechanism]
            return decoy(mechanism, kind + name.encode(), self.secret, iterations)

        return decoy_of

    def update(self, name: str, credentials: Credentials) -> None:
        """Replaces the credentials of a user in memory, after this broker or another broker has
        changed the store."""
        self._count(self._known.pop(name, {}), -1)
        if credentials:
            self._known[name] = dict(credentials)
            self._count(credentials, 1)

    def _count(self, credentials: Credentials, by: int) -> None:
        for mechanism, each in credentials.items():
            if each.iterations >= ITERATIONS_MIN:
                counts = self._iterations[mechanism]
                counts[each.iterations] += by
                if not counts[each.iterations]:
                    del counts[each.iterations]

    async def alter(
        self, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion], slices: Slices
    ) -> dict[str, Outcome]:
        """Applies the changes of each user. If one change of a user is invalid, none of the changes
        of this user is applied. Returns the result by user, in the order of the request.

        Pauses between slices, since a new password costs two hashes.
        """
        async with self._changing:
            changes: dict[str, list[Deletion | Upsertion]] = {}
            asked: list[Deletion | Upsertion] = [*deletions, *upsertions]
            for each in asked:
                changes.setdefault(each.name, []).append(each)
            outcomes: dict[str, Outcome] = {}
            edits: dict[str, Edit] = {}
            for name, of_user in changes.items():
                outcomes[name] = self._wrong(of_user)
                if not outcomes[name].error_code:
                    edits[name] = _edit(of_user)
                if slices.over:
                    await slices.pause()
            altered = await self._store.alter(edits) if edits else {}
            for name, found in altered.items():
                if isinstance(found, str):
                    outcomes[name] = Outcome(UNKNOWN_SERVER_ERROR, found)
                else:
                    self.update(name, found)
            return outcomes

    def _wrong(self, changes: list[Deletion | Upsertion]) -> Outcome:
        """Returns the first error in the changes of one user, in Kafka's order of checks. Without
        an error, the error code is NONE."""
        outcome = self._wrong_alone(changes[0])
        if not outcome.error_code and len(changes) > 1:
            said = "A user credential cannot be altered twice in the same request"
            return Outcome(DUPLICATE_RESOURCE, said)
        return outcome

    def _wrong_alone(self, change: Deletion | Upsertion) -> Outcome:
        if not change.name:
            return Outcome(UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = BY_CODE.get(change.mechanism_code)
        if mechanism is None:
            return Outcome(UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, Upsertion):
            wrong = wrong_iterations(change.iterations)
            return Outcome() if wrong is None else Outcome(UNACCEPTABLE_CREDENTIAL, wrong)
        if mechanism not in self.of(change.name):
            said = "Attempt to delete a user credential that does not exist"
            return Outcome(RESOURCE_NOT_FOUND, said)
        return Outcome()


def _edit(changes: Iterable[Deletion | Upsertion]) -> Edit:
    edit: dict[ScramMechanism, ScramCredential | None] = {}
    for change in changes:
        mechanism = BY_CODE[change.mechanism_code]
        edit[mechanism] = (
            None
            if isinstance(change, Deletion)
            else credential(mechanism, change.salted_password, change.salt, change.iterations)
        )
    return edit
