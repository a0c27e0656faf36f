"""The table: every kind of state that one request leaves for a later one, by how it is misused."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from tests.broker.handed_on.scene import Scene


class Kind(StrEnum):
    """What a request leaves behind."""

    FETCH_SESSION = "fetch session"
    SASL_CONVERSATION = "SASL conversation"
    DELEGATION_TOKEN = "delegation token"
    PRODUCER_ID = "producer id"
    TRANSACTION = "transaction"
    MEMBER_ID = "member id"
    LIVE_STREAM = "live HTTP stream"


class Misuse(StrEnum):
    """How it is used."""

    BY_ANOTHER = "made by one principal, used by another"
    IN_ANOTHER_ROLE = "made in one role, used in another"
    AFTER_REVOCATION = "made before a right was revoked, used afterwards"


class Case(NamedTuple):
    """One cell's case; ``run`` fails where the state is misused with success."""

    kind: Kind
    misuse: Misuse
    run: Callable[[Scene], None]

    @property
    def name(self) -> str:
        """What it is called in the test's id."""
        return self.run.__name__


CASES: list[Case] = []


def case(
    kind: Kind, misuse: Misuse
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Puts a function into the table."""

    def put(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        CASES.append(Case(kind, misuse, run))
        return run

    return put
